#!/bin/bash
set -e
cat > events.jsonl <<'END'
{"user": "ann", "type": "click"}
{"user": "bob", "type": "view"}
{"user": "ann", "type": "view"}
{"user": "eve", "type": "click"}
{"user": "ann", "type": "click"}
{"user": "bob", "type": "doubleclick"}
END
