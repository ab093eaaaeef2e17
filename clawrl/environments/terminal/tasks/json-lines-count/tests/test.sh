#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

python3 -c 'import json; assert json.load(open("clicks.json")) == {"ann": 2, "eve": 1}' || fail "the counts are not right"
echo 1 > /logs/verifier/reward.txt
