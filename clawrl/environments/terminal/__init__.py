"""A shell as a world to act in, and tasks in Harbor's folder layout."""
