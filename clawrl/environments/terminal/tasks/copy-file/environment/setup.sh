#!/bin/bash
set -e
printf 'one\ntwo\nthree\n' > a.txt
