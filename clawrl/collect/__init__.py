"""Drives personas through the gateway: problems, simulated users, admission, sessions."""
