#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat today.txt)" = "buy tea" ] || fail "today.txt is not there"
[ ! -e notes ] && [ ! -e other.txt ] || fail "more was taken out"
echo 1 > /logs/verifier/reward.txt
