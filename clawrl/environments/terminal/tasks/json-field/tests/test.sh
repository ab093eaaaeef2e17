#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat version.txt)" = 4.12.0 ] || fail "this is not the version"
echo 1 > /logs/verifier/reward.txt
