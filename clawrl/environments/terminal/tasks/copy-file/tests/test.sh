#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -f a.txt ] || fail "a.txt is gone"
[ -f b.txt ] || fail "there is no b.txt"
cmp -s a.txt b.txt || fail "they differ"
grep -qx two b.txt || fail "the content was lost"
echo 1 > /logs/verifier/reward.txt
