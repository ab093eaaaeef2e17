#!/bin/bash
set -e
export GIT_AUTHOR_DATE='2024-01-01T10:00:00Z' GIT_COMMITTER_DATE='2024-01-01T10:00:00Z'
git config --global user.name Agent
git config --global user.email agent@example.com
git config --global init.defaultBranch main
git init -q repo
cd repo
printf 'greeting=hi\nend=bye\n' > text.ini
git add .
git commit -qm Start
git checkout -qb feature
printf 'greeting=welcome\nend=bye\n' > text.ini
echo new > extra.txt
git add .
git commit -qm Welcome
git checkout -q main
printf 'greeting=hello\nend=bye\n' > text.ini
git commit -qam Hello
