#!/bin/bash
unzip -p backup.zip notes/today.txt > today.txt
