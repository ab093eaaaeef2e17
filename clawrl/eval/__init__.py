"""Measures of a persona's taste on fixed problems, their statistics, and the report of a run."""
