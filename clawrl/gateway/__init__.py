"""The OpenAI-compatible server in front of the engine: sessions, capture, next states."""
