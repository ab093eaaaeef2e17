#!/bin/bash
set -e
mkdir pages
echo 'the colour of a colour' > pages/one.txt
echo 'no change' > pages/two.txt
echo 'my colour' > pages/three.txt
echo 'colour' > pages/keep.md
