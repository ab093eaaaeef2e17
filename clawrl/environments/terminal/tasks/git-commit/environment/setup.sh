#!/bin/bash
set -e
export GIT_AUTHOR_DATE='2024-01-01T10:00:00Z' GIT_COMMITTER_DATE='2024-01-01T10:00:00Z'
git config --global user.name Agent
git config --global user.email agent@example.com
git config --global init.defaultBranch main
git init -q repo
cd repo
echo one > base.txt
git add base.txt
git commit -qm Start
echo hi > readme.md
echo later > draft.md
