#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat worker.log)" = "$(printf "started\nstatus asked\nstopped cleanly")" ] || fail "worker.log says something else"
echo 1 > /logs/verifier/reward.txt
