#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ ! -e old.txt ] || fail "old.txt is still there"
[ "$(cat new.txt)" = kept ] || fail "new.txt does not hold the content"
echo 1 > /logs/verifier/reward.txt
