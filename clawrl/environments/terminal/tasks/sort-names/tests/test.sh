#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(tr "\n" " " < sorted.txt)" = "anna ben mia tom zoe " ] || fail "they are not sorted"
echo 1 > /logs/verifier/reward.txt
