#!/bin/bash
set -e
mkdir release-1 release-2
echo 2 > release-2/number
