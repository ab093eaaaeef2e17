#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ ! -e junk.txt ] || fail "junk.txt is still there"
[ "$(cat keep.txt)" = important ] || fail "keep.txt was changed"
echo 1 > /logs/verifier/reward.txt
