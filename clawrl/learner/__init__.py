"""Samples to new weights: batches, log-probabilities, optimiser steps, checkpoints."""
