#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

gzip -t docs.tar.gz || fail "it is not compressed by gzip"
[ "$(tar tzf docs.tar.gz | grep -v "/$" | sort | tr "\n" " ")" = "docs/a.md docs/b.md " ] || fail "it holds other paths"
[ -f docs/a.md ] || fail "the folder is gone"
echo 1 > /logs/verifier/reward.txt
