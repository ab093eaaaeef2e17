"""What a model can be measured on: one small file for each task."""
