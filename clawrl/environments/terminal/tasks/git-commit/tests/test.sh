#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

cd repo
[ "$(git log -1 --format=%s)" = "Add readme" ] || fail "the last message is another"
[ "$(git ls-tree --name-only HEAD | tr "\n" " ")" = "base.txt readme.md " ] || fail "other files are committed"
echo 1 > /logs/verifier/reward.txt
