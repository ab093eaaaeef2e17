#!/bin/bash
git -C repo log -S'limit=99' --format=%s -- settings.ini > culprit.txt
