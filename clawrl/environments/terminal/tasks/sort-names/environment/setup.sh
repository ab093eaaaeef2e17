#!/bin/bash
set -e
printf 'mia\nben\nzoe\nanna\ntom\n' > names.txt
