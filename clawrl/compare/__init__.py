"""Runs, versions and evaluations side by side."""
