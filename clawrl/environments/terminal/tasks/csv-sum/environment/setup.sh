#!/bin/bash
set -e
cat > sales.csv <<'END'
day,item,amount
1,tea,12
1,cake,30
2,tea,8
3,coffee,25
3,cake,45
END
