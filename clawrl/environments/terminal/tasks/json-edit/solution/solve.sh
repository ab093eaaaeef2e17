#!/bin/bash
python3 - <<'END'
import json
c = json.load(open('config.json'))
c['server']['debug'] = False
c['server']['port'] = 8080
json.dump(c, open('config.json', 'w'))
END
