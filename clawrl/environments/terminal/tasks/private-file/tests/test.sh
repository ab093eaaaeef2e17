#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(stat -c %a secret.txt)" = 600 ] || fail "its mode is $(stat -c %a secret.txt)"
echo 1 > /logs/verifier/reward.txt
