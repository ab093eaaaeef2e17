#!/bin/bash
set -e
mkdir files
for n in 1 2 3 4 5; do echo "content $n" > files/file$n.dat; done
(cd files && sha256sum *.dat) > sums.txt
printf 'content 4 \n' > files/file4.dat
