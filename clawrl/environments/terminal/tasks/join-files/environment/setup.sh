#!/bin/bash
set -e
printf 'first\n' > part1.txt
printf 'second\n' > part2.txt
