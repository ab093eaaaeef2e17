#!/bin/bash
MODE=fast ./show.sh > mode.txt
