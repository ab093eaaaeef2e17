#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

cd repo
[ "$(git symbolic-ref --short HEAD)" = main ] || fail "main is not the current branch"
[ "$(git rev-list --parents -1 HEAD | wc -w)" = 3 ] || fail "the last commit is no merge"
[ "$(git show HEAD:text.ini)" = "$(printf "greeting=hello and welcome\nend=bye")" ] || fail "text.ini is not right"
[ "$(git show HEAD:extra.txt)" = new ] || fail "extra.txt is missing"
echo 1 > /logs/verifier/reward.txt
