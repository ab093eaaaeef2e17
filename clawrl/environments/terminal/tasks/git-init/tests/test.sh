#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ -d project ] || fail "there is no folder project"
[ "$(git -C project rev-parse --git-dir 2>&1)" = .git ] || fail "it is no git repository of its own"
echo 1 > /logs/verifier/reward.txt
