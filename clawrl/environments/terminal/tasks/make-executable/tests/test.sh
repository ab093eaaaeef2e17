#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -x run.sh ] || fail "it cannot be executed"
grep -q running run.sh || fail "it was changed"
echo 1 > /logs/verifier/reward.txt
