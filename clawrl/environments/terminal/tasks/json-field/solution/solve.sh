#!/bin/bash
python3 -c 'import json; print(json.load(open("project.json"))["package"]["version"])' > version.txt
