"""The command line: compose, build, run, render."""
