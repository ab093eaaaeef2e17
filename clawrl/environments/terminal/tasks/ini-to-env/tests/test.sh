#!/bin/bash
fail() {
  echo "$1"
  echo 0 > /logs/verifier/reward.txt
  exit 0
}

[ "$(cat app.env)" = "$(printf "SERVER_HOST=localhost\nSERVER_PORT=8080\nDATABASE_USER=admin\nDATABASE_URL=db://x?a=1")" ] || fail "the lines are not right"
echo 1 > /logs/verifier/reward.txt
