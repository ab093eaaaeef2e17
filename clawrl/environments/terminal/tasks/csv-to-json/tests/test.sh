#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

python3 -c 'import json; assert json.load(open("people.json")) == [{"name": "Ada", "age": 36, "city": "London, UK"}, {"name": "Linus", "age": 28, "city": "Helsinki"}]' || fail "the content is not right"
echo 1 > /logs/verifier/reward.txt
