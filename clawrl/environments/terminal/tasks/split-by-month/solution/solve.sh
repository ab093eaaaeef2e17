#!/bin/bash
while read -r line; do echo "$line" >> "${line:0:7}.txt"; done < diary.txt
