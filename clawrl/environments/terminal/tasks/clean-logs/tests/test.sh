#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(find var -type f | sort | tr "\n" " ")" = "var/a/b/catalog var/a/keep.log var/a/log var/a/old.log.txt var/keep.log " ] || fail "other files are left"
[ -d var/empty ] || fail "a folder is gone"
echo 1 > /logs/verifier/reward.txt
