#!/bin/bash
set -e
cat > people.csv <<'END'
name,age,city
Ada,36,"London, UK"
Linus,28,Helsinki
END
