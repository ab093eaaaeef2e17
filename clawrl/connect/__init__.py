"""Pointing stock agents at a gateway: what their configurations must say, and writing it there."""
