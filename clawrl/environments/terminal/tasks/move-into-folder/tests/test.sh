#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ ! -e photo.jpg ] || fail "photo.jpg is still where it was"
[ "$(cat pictures/photo.jpg)" = image ] || fail "it is not in pictures"
echo 1 > /logs/verifier/reward.txt
