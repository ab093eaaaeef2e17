#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -f notes.txt ] || fail "there is no file named notes.txt"
[ ! -s notes.txt ] || fail "it is not empty"
echo 1 > /logs/verifier/reward.txt
