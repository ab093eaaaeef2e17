"""The process tree: who is started, in which order, and how it all ends."""
