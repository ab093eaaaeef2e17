#!/bin/bash
python3 - <<'END'
import json
from collections import Counter
events = [json.loads(line) for line in open('events.jsonl')]
json.dump(Counter(e['user'] for e in events if e['type'] == 'click'), open('clicks.json', 'w'))
END
