#!/bin/bash
cd repo
git add readme.md
git commit -qm 'Add readme'
