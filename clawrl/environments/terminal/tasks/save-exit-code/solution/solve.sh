#!/bin/bash
./check.sh; echo $? > code.txt
