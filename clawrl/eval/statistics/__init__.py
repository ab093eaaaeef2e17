"""Means, shares and their intervals. Pure."""
