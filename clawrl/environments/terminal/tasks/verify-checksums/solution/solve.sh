#!/bin/bash
(cd files && sha256sum -c ../sums.txt 2>/dev/null) | grep FAILED | cut -d: -f1 > bad.txt
