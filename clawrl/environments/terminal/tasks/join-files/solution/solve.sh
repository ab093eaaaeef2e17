#!/bin/bash
cat part1.txt part2.txt > whole.txt
