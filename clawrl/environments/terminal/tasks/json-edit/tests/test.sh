#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

python3 -c 'import json; assert json.load(open("config.json")) == {"debug": True, "server": {"debug": False, "host": "localhost", "port": 8080}, "tags": ["a", "b"]}' || fail "the content is not right"
echo 1 > /logs/verifier/reward.txt
