#!/bin/bash
set -e
cat > access.log <<'END'
10.0.0.1 GET /a 200
10.0.0.2 GET /b 404
10.0.0.1 GET /404 200
10.0.0.3 GET /c 404
10.0.0.1 GET /d 404
10.0.0.3 GET /e 404
10.0.0.1 GET /f 200
10.0.0.2 GET /404 200
10.0.0.2 GET /404 500
END
