#!/bin/bash
set -e
echo 'The dog saw the cat. The cat saw the dog, and THEN the cat ran!' > story.txt
