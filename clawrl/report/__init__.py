"""The report of a run: tables, learning curve, replies to read."""
