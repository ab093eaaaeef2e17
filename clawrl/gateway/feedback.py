"""`POST /v1/feedback`: what somebody thinks of a reply, said beside the conversation."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clawrl.gateway.errors import ApiError
from clawrl.records.nouns import Score


class FeedbackBody(BaseModel):
    """A rating, some words, or both, about one turn."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    interaction_id: str | None = None
    """The `id` of a completion or response."""
    session_id: str | None = None
    """In its place: the session, whose newest turn is meant."""
    score: int | None = Field(default=None, ge=-1, le=1)
    text: str = Field(default="", max_length=100_000)

    @property
    def rating(self) -> Score | None:
        """The score as records hold it."""
        return cast("Score | None", self.score)

    @model_validator(mode="after")
    def _says_something_of_something(self) -> FeedbackBody:
        if (self.interaction_id is None) == (self.session_id is None):
            raise ValueError("give interaction_id or session_id")
        if self.score is None and not self.text.strip():
            raise ValueError("give a score (-1, 0 or 1), a text, or both")
        return self


def read_feedback(body: dict[str, Any]) -> FeedbackBody:
    """Check a body. Raises ApiError (400)."""
    try:
        asked = FeedbackBody.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        param = ".".join(str(part) for part in first["loc"]) or None
        problem = first["msg"].removeprefix("Value error, ")
        raise ApiError(400, f"{param}: {problem}" if param else problem, param=param) from None
    if asked.interaction_id is None:
        return asked
    name = asked.interaction_id.replace("resp_", "chatcmpl-", 1)
    return asked.model_copy(update={"interaction_id": name})
