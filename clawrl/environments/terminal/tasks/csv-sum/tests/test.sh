#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat total.txt)" = 120 ] || fail "this is not the sum"
echo 1 > /logs/verifier/reward.txt
