#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -x add.sh ] || fail "add.sh cannot be executed"
try() { local want="$1"; shift; [ "$(timeout 5 ./add.sh "$@")" = "$want" ] || fail "$* does not give $want"; }
try 5 2 3
try 0
try -1 4 -5
try 55 1 2 3 4 5 6 7 8 9 10
echo 1 > /logs/verifier/reward.txt
