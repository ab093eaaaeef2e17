#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

try() { [ "$(timeout 5 bash countdown.sh "$1" 2>&1 | tr "\n" " ")" = "$2" ] || fail "for $1 it prints something else"; }
try 3 "3 2 1 go "
try 1 "1 go "
try 0 "go "
try 12 "12 11 10 9 8 7 6 5 4 3 2 1 go "
[ ! -e 1 ] || [ ! -s 1 ] || fail "it writes a file"
echo 1 > /logs/verifier/reward.txt
