#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat first.txt)" = "the treasure is here" ] || fail "this is not the first line"
echo 1 > /logs/verifier/reward.txt
