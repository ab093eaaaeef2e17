#!/bin/bash
cat > top.py <<'END'
import re
import sys
from collections import Counter

counts = Counter(re.findall('[a-z]+', sys.stdin.read().lower()))
for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]:
    print(word)
END
