"""Asking a language model for its opinion, and quoting other people's text to it."""
