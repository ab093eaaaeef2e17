#!/bin/bash
set -e
echo kept > old.txt
