#!/bin/bash
tar xJOf download map.txt | head -n 1 > first.txt
