#!/bin/bash
head -n 3 data.txt > top.txt
