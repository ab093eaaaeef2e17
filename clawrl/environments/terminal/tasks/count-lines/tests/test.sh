#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(tr -s " " < count.txt | sed "s/^ //; s/ poem.txt$//")" = 7 ] || fail "the number is not right"
echo 1 > /logs/verifier/reward.txt
