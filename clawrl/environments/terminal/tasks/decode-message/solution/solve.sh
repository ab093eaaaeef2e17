#!/bin/bash
base64 -d message.b64 > message.txt
