#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat code.txt)" = 37 ] || fail "this is not the exit code"
echo 1 > /logs/verifier/reward.txt
