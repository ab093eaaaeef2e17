#!/bin/bash
tr 'A-Z' 'a-z' < story.txt | grep -oE '[a-z]+' | sort -u | wc -l > words.txt
