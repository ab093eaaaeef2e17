#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat mode.txt)" = "mode fast, run by show.sh" ] || fail "this is not what it prints"
grep -q none show.sh || fail "the script was changed"
echo 1 > /logs/verifier/reward.txt
