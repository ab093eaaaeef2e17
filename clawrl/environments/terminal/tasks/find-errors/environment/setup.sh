#!/bin/bash
set -e
cat > app.log <<'END'
10:00 INFO started
10:01 ERROR disk full
10:02 INFO no error here
10:03 WARN slow
10:04 ERROR no route
END
