#!/bin/bash
awk -F, 'NR==1 || $2=="Paris"' trips.csv > paris.csv
