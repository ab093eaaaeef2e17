#!/bin/bash
set -e
echo pin > secret.txt
chmod 644 secret.txt
