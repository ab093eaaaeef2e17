#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -d a/b/c ] || fail "there is no folder a/b/c"
echo 1 > /logs/verifier/reward.txt
