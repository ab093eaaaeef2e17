#!/bin/bash
find store -type f -printf '%s %f\n' | sort -n | tail -n 1 | cut -d' ' -f2 > largest.txt
