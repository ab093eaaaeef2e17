#!/bin/bash
python3 - > app.env <<'END'
section = ''
for line in open('app.ini'):
    line = line.strip()
    if not line or line.startswith(';'):
        continue
    if line.startswith('['):
        section = line.strip('[]')
        continue
    key, value = line.split('=', 1)
    print(f'{section}_{key.strip()}'.upper() + '=' + value.strip())
END
