#!/bin/bash
set -e
mkdir pictures
echo image > photo.jpg
