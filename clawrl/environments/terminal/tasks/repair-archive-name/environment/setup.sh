#!/bin/bash
set -e
mkdir in
printf 'the treasure is here\nsecond line\n' > in/map.txt
tar cJf download -C in map.txt
rm -r in
