#!/bin/bash
set -e
cat > endless.sh <<'END'
#!/bin/bash
n=0
while true; do
  n=$((n + 1))
  echo "line $n"
  sleep 0.1
done
END
chmod +x endless.sh
