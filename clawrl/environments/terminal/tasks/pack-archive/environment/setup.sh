#!/bin/bash
set -e
mkdir docs
echo a > docs/a.md
echo b > docs/b.md
