#!/bin/bash
set -e
cat > job.sh <<'END'
#!/bin/bash
echo "job ran with niceness $(nice)" > job.log
END
chmod +x job.sh
