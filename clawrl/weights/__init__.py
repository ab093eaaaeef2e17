"""When new weights go to the engine, and the proof that they arrived."""
