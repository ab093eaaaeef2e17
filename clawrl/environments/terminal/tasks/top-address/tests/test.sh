#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat top.txt)" = 10.0.0.3 ] || fail "this is not the address"
echo 1 > /logs/verifier/reward.txt
