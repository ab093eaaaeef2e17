#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -f top.py ] || fail "there is no top.py"
try() { [ "$(printf "%s" "$1" | timeout 10 python3 top.py | tr "\n" " ")" = "$2" ] || fail "for '$1' it prints something else"; }
try "b a b c a b" "b a c "
try "Dog dog, DOG! cat; cat bird ant" "dog cat ant "
try "one" "one "
try "z y x w z-y" "y z w "
echo 1 > /logs/verifier/reward.txt
