#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

cd repo
[ "$(cat config.ini)" = v=2 ] || fail "config.ini is not back"
[ "$(cat notes.txt)" = changed ] || fail "the change of notes.txt is gone"
echo 1 > /logs/verifier/reward.txt
