#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(head -n 1 lines.txt)" = "line 1" ] || fail "the first line is missing"
n="$(wc -l < lines.txt)"
[ "$n" -ge 4 ] && [ "$n" -le 14 ] || fail "it holds $n lines"
echo 1 > /logs/verifier/reward.txt
