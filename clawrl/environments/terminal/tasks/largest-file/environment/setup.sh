#!/bin/bash
set -e
mkdir -p store/a/b store/c
head -c 300 /dev/zero > store/small.bin
head -c 9000 /dev/zero > store/a/b/middle.bin
head -c 20000 /dev/zero > store/c/heavy.bin
head -c 1000 /dev/zero > store/top.bin
