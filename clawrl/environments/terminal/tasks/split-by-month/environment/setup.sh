#!/bin/bash
set -e
cat > diary.txt <<'END'
2024-01-03 snow
2024-02-11 rain
2024-01-20 ice on 2024-03-01
2024-11-02 fog
2024-02-28 wind
END
