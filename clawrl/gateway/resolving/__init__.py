"""Where a request belongs when the client does not say: marks, normalised words, trails, sessions.

Everything but `Sessions` is pure; what clients look like stands in `rules.yaml`.
"""
