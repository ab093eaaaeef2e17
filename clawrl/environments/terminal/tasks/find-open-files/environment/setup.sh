#!/bin/bash
set -e
mkdir -p shared/a shared/b
touch shared/a/one shared/a/two shared/b/three shared/four
chmod 666 shared/a/two
chmod 664 shared/b/three
chmod 602 shared/four
chmod 644 shared/a/one
chmod 777 shared/b
