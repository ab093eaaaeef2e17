#!/bin/bash
set -e
cat > app.ini <<'END'
; settings
[server]
host = localhost
port=8080

[data base]
; secret
user = admin
url = db://x?a=1
END
sed -i 's/data base/database/' app.ini
