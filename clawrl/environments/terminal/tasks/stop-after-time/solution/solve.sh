#!/bin/bash
timeout 1 ./endless.sh > lines.txt
