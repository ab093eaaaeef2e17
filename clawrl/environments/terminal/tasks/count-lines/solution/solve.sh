#!/bin/bash
wc -l < poem.txt > count.txt
