#!/bin/bash
set -e
printf '#!/bin/sh\necho running\n' > run.sh
chmod 644 run.sh
