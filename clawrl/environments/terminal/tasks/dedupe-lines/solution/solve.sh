#!/bin/bash
awk '!seen[$0]++' visits.txt > unique.txt
