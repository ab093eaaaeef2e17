#!/bin/bash
set -e
cat > countdown.sh <<'END'
#!/bin/bash
n=$2
while [ $n > 1 ]; do
  echo $n
  n=$((n - 1))
  if [ $n -lt -50 ]; then break; fi
done
echo Go
END
chmod +x countdown.sh
