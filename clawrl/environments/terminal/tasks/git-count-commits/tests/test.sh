#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(tr -d " " < ann.txt)" = 4 ] || fail "this is not the number"
echo 1 > /logs/verifier/reward.txt
