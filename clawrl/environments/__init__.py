"""Worlds an agent acts in: their sandbox, and one folder for each kind of environment."""
