#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(tr "\n" " " < unique.txt)" = "tom ana zed bo " ] || fail "this is not right"
echo 1 > /logs/verifier/reward.txt
