#!/bin/bash
set -e
mkdir -p var/a/b var/empty
touch var/x.log var/a/y.log var/a/b/z.log var/a/keep.log var/keep.log var/a/log var/a/b/catalog var/a/old.log.txt
