#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -f greeting.txt ] || fail "there is no file named greeting.txt"
[ "$(cat greeting.txt)" = hello ] || fail "it holds something else"
echo 1 > /logs/verifier/reward.txt
