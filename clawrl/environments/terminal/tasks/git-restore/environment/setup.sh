#!/bin/bash
set -e
export GIT_AUTHOR_DATE='2024-01-01T10:00:00Z' GIT_COMMITTER_DATE='2024-01-01T10:00:00Z'
git config --global user.name Agent
git config --global user.email agent@example.com
git config --global init.defaultBranch main
git init -q repo
cd repo
echo v=1 > config.ini
echo note > notes.txt
git add .
git commit -qm Start
echo v=2 > config.ini
git commit -qam Two
rm config.ini
echo changed > notes.txt
