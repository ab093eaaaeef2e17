#!/bin/bash
awk '$1=="www" {print $4, $2}' ps.txt | sort -n | tail -n 1 | cut -d' ' -f2 > pid.txt
