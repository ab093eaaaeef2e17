#!/bin/bash
mkdir out
tar xzf bundle.tar.gz -C out
