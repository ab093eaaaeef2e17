#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat bad.txt)" = file4.dat ] || fail "this is not the file"
echo 1 > /logs/verifier/reward.txt
