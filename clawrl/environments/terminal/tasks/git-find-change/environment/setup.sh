#!/bin/bash
set -e
export GIT_AUTHOR_DATE='2024-01-01T10:00:00Z' GIT_COMMITTER_DATE='2024-01-01T10:00:00Z'
git config --global user.name Agent
git config --global user.email agent@example.com
git config --global init.defaultBranch main
git init -q repo
cd repo
printf 'limit=10\nname=a\n' > settings.ini
git add .
git commit -qm 'Begin'
printf 'limit=10\nname=b\n' > settings.ini
git commit -qam 'Rename it'
printf 'limit=99\nname=b\n' > settings.ini
git commit -qam 'Small cleanup'
printf 'limit=99\nname=c\n' > settings.ini
git commit -qam 'Raise the limit'
