#!/bin/bash
set -e
mkdir notes
echo buy tea > notes/today.txt
echo none > notes/other.txt
zip -qr backup.zip notes
rm -r notes
