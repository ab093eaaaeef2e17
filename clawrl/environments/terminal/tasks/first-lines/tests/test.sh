#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(tr "\n" " " < top.txt)" = "101 102 103 " ] || fail "these are not the first three lines"
echo 1 > /logs/verifier/reward.txt
