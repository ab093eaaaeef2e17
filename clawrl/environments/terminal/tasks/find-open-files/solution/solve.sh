#!/bin/bash
find shared -type f -perm -o+w | sort > open.txt
