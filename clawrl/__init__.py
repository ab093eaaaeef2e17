"""Trains a language model from what comes back after each of its replies, while it serves."""

__version__ = "0.1.0"
