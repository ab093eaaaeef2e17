#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat year.txt)" = "$(date +%Y)" ] || fail "this is not the year"
echo 1 > /logs/verifier/reward.txt
