#!/bin/bash
set -e
cat > project.json <<'END'
{
  "version": "format-1",
  "package": {"name": "tool", "version": "4.12.0"},
  "needs": [{"name": "lib", "version": "9.1"}]
}
END
