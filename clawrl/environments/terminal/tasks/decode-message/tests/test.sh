#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat message.txt)" = "Meet me at the old mill at nine." ] || fail "this is not the text"
echo 1 > /logs/verifier/reward.txt
