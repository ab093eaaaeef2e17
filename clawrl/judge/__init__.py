"""Turns what came back after a reply into votes, a score and a hint."""
