#!/bin/bash
set -e
mkdir fruits
touch fruits/apple fruits/cherry fruits/banana
