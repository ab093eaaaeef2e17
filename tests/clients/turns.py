"""What the person says: a task, a correction, and how it goes on."""

CORRECTION = "No, that is wrong. Answer in one short sentence."
HINT = "Answer in one short sentence."


def lines(task: str) -> list[str]:
    """Three turns. Conversations differ in the task alone, as near-identical ones do."""
    return [task, CORRECTION, "Thanks, that is right. And what is 3+3?"]


TASKS = {"one": "What is 2+2?", "two": "What is 4+4?"}
