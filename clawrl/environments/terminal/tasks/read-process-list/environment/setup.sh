#!/bin/bash
set -e
cat > ps.txt <<'END'
USER   PID %CPU %MEM COMMAND
root     1  0.0  0.4 init
www    212 55.0  3.1 httpd
www    213  2.0 12.6 httpd -k
db     377  9.9 40.2 postgres
www    418  0.3  9.8 cron www
root   500  0.0 50.0 www-backup
END
