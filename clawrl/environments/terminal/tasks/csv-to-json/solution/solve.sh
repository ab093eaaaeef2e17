#!/bin/bash
python3 - <<'END'
import csv, json
rows = [{**r, 'age': int(r['age'])} for r in csv.DictReader(open('people.csv'))]
json.dump(rows, open('people.json', 'w'))
END
