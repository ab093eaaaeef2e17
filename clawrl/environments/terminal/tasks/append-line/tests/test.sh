#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat shopping.txt)" = "$(printf "bread\neggs\nmilk")" ] || fail "the file is not bread, eggs, milk"
echo 1 > /logs/verifier/reward.txt
