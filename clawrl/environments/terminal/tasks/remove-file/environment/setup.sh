#!/bin/bash
set -e
echo old > junk.txt
echo important > keep.txt
