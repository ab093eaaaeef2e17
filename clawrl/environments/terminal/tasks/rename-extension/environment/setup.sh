#!/bin/bash
set -e
mkdir img
for n in cat dog 'big bird'; do echo "$n" > "img/$n.jpeg"; done
echo x > img/plan.png
