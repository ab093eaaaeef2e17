"""Turns an interaction and its verdict into the sample that the learner eats, or says why not."""
