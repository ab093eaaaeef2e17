#!/bin/bash
set -e
printf 'bread\neggs\n' > shopping.txt
