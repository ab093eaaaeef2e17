#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat paris.csv)" = "$(printf "name,city,note\nann,Paris,first\neve,Paris,again")" ] || fail "these are not the rows"
echo 1 > /logs/verifier/reward.txt
