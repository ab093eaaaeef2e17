#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat pages/one.txt)" = "the color of a color" ] || fail "one.txt is not right"
[ "$(cat pages/two.txt)" = "no change" ] && [ "$(cat pages/three.txt)" = "my color" ] || fail "two.txt or three.txt is not right"
[ "$(cat pages/keep.md)" = colour ] || fail "keep.md was changed"
echo 1 > /logs/verifier/reward.txt
