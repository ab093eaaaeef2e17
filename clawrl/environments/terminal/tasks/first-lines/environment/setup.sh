#!/bin/bash
set -e
seq 101 120 > data.txt
