#!/bin/bash
mkdir -p a/b/c
