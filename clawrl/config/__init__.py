"""The configuration: its schema, how recipes compose, and what is built from it."""
