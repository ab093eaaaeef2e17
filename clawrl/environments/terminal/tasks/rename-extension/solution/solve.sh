#!/bin/bash
for f in img/*.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done
