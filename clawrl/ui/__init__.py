"""The page to talk on: chat, what was learned from each turn, sessions, curves."""
