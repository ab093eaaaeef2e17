"""`/v1/responses`, the API that Codex speaks, as a translation to and from chat completions."""
