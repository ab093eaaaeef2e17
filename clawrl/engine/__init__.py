"""The inference engine: vLLM as a child process, and the client that talks to it."""
