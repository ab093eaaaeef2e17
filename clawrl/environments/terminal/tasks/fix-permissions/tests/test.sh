#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -z "$(find site -type d ! -perm 755)" ] || fail "a folder has another mode"
[ -z "$(find site -type f ! -perm 644)" ] || fail "a file has another mode"
[ "$(find site | wc -l)" = 7 ] || fail "something is missing"
echo 1 > /logs/verifier/reward.txt
