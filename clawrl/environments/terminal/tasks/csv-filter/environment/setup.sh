#!/bin/bash
set -e
cat > trips.csv <<'END'
name,city,note
ann,Paris,first
bob,Rome,loves Paris
eve,Paris,again
kim,Paris Nord,close
END
