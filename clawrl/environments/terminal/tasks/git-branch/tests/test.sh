#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

cd repo
[ "$(git symbolic-ref --short HEAD)" = main ] || fail "main is not the current branch"
[ "$(git rev-parse -q --verify refs/heads/feature)" = "$(git rev-parse main)" ] || fail "feature does not start here"
echo 1 > /logs/verifier/reward.txt
