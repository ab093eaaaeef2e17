#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat out/readme.txt)" = read ] || fail "there is no out/readme.txt"
[ "$(cat out/src/main.c)" = main ] || fail "there is no out/src/main.c"
echo 1 > /logs/verifier/reward.txt
