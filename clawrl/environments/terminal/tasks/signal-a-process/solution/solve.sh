#!/bin/bash
./worker.sh &
pid=$!
sleep 0.3
kill -USR1 $pid
sleep 0.4
kill -TERM $pid
wait $pid
