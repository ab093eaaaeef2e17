#!/bin/bash
set -e
export GIT_AUTHOR_DATE='2024-01-01T10:00:00Z' GIT_COMMITTER_DATE='2024-01-01T10:00:00Z'
git config --global user.name Agent
git config --global user.email agent@example.com
git config --global init.defaultBranch main
git init -q repo
cd repo
for who in Ann Bob Ann Joanna Ann Bob Ann; do echo "$who" >> log
 git add log
 git commit -q --author "$who <$who@example.com>" -m "by Ann or not" --allow-empty
done
