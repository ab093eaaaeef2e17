#!/bin/bash
find var -type f -name '*.log' ! -name keep.log -delete
