#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat 2024-01.txt)" = "$(printf "2024-01-03 snow\n2024-01-20 ice on 2024-03-01")" ] || fail "January is not right"
[ "$(wc -l < 2024-02.txt)" = 2 ] && [ "$(cat 2024-11.txt)" = "2024-11-02 fog" ] || fail "February or November is not right"
[ "$(ls 2024-*.txt | wc -l)" = 3 ] || fail "there are other files"
[ "$(wc -l < diary.txt)" = 5 ] || fail "diary.txt was changed"
echo 1 > /logs/verifier/reward.txt
