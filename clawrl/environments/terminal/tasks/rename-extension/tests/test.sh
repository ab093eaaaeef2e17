#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(ls img | sort | tr "\n" ,)" = "big bird.jpg,cat.jpg,dog.jpg,plan.png," ] || fail "the names are not right"
[ "$(cat "img/big bird.jpg")" = "big bird" ] || fail "the content was lost"
echo 1 > /logs/verifier/reward.txt
