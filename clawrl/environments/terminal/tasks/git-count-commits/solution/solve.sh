#!/bin/bash
git -C repo log --format=%an | grep -cx Ann > ann.txt
