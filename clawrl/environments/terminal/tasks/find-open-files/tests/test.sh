#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat open.txt)" = "$(printf "shared/a/two\nshared/four")" ] || fail "these are not the files"
echo 1 > /logs/verifier/reward.txt
