#!/bin/bash
set -e
printf 'The rain came down\non the quiet town\nand every street\nhad silver feet.\nThe moon came late\nbehind the gate\nand went away.\n' > poem.txt
