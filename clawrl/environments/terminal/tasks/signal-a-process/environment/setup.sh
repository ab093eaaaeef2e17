#!/bin/bash
set -e
cat > worker.sh <<'END'
#!/bin/bash
: > worker.log
trap 'echo "status asked" >> worker.log' USR1
trap 'echo "stopped cleanly" >> worker.log; exit 0' TERM
trap 'echo "interrupted" >> worker.log; exit 1' INT
echo started >> worker.log
for _ in $(seq 200); do sleep 0.1; done
echo "gave up" >> worker.log
END
chmod +x worker.sh
