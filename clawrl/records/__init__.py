"""The nouns of a run, and the files of JSON lines that hold them."""
