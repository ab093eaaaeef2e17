#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat culprit.txt)" = "Small cleanup" ] || fail "this is not the commit"
echo 1 > /logs/verifier/reward.txt
