#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat job.log)" = "job ran with niceness 10" ] || fail "it did not run with a niceness of 10"
grep -q "(nice)" job.sh || fail "the script was changed"
echo 1 > /logs/verifier/reward.txt
