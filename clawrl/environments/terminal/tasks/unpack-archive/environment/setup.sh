#!/bin/bash
set -e
mkdir src
echo read > readme.txt
echo main > src/main.c
tar czf bundle.tar.gz readme.txt src
rm -r readme.txt src
