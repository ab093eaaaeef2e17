#!/bin/bash
cat > countdown.sh <<'END'
#!/bin/bash
n=$1
while [ "$n" -ge 1 ]; do
  echo "$n"
  n=$((n - 1))
done
echo go
END
