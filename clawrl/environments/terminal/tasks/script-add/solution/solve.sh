#!/bin/bash
cat > add.sh <<'END'
#!/bin/bash
sum=0
for n in "$@"; do sum=$((sum + n)); done
echo $sum
END
chmod +x add.sh
