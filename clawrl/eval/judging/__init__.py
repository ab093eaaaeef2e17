"""The judge measured: labelled next states, agreement, and the table."""
