#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat largest.txt)" = heavy.bin ] || fail "this is not the largest"
echo 1 > /logs/verifier/reward.txt
