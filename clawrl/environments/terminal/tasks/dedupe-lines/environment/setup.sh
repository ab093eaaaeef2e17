#!/bin/bash
set -e
printf 'tom\nana\ntom\nzed\nana\nbo\ntom\n' > visits.txt
