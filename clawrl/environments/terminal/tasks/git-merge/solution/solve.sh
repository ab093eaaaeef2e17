#!/bin/bash
cd repo
git merge -q feature >/dev/null
printf 'greeting=hello and welcome\nend=bye\n' > text.ini
git add text.ini
git commit -qm Merge
