#!/bin/bash
date +%Y > year.txt
