#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat errors.txt)" = "$(printf "10:01 ERROR disk full\n10:04 ERROR no route")" ] || fail "these are not the lines"
echo 1 > /logs/verifier/reward.txt
