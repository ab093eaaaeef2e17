#!/bin/bash
set -e
echo 'Meet me at the old mill at nine.' | base64 > message.b64
