#!/bin/bash
nice -n 10 ./job.sh
