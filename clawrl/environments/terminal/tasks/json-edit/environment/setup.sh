#!/bin/bash
set -e
cat > config.json <<'END'
{"debug": true, "server": {"debug": true, "host": "localhost"}, "tags": ["a", "b"]}
END
