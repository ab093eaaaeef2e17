"""What `previous_response_id` refers to: the conversations of the newest responses."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from clawrl.gateway.errors import ApiError

Json = dict[str, Any]
_KEPT = 1024


class RememberedResponses:
    """Keeps the newest responses' histories; a client that names an older one sends it whole."""

    def __init__(self) -> None:
        self._histories: OrderedDict[str, tuple[str | None, list[Json]]] = OrderedDict()

    def keep(self, response_id: str, user: str | None, messages: list[Json], reply: Json) -> None:
        """A response was given to `user`: its request's messages, and the reply."""
        self._histories[response_id] = (user, [*messages, reply])
        while len(self._histories) > _KEPT:
            self._histories.popitem(last=False)

    def history(self, response_id: object, user: str | None) -> list[Json]:
        """The messages up to and with a response; none for None.

        Raises:
            ApiError: 400, there is no such response, or it was another user's.
        """
        if response_id is None:
            return []
        owner, messages = self._histories.get(str(response_id), (None, None))
        if messages is None or owner != user:
            raise ApiError(
                400,
                f"previous response '{response_id}' is not known here (any more): send the whole "
                "history as input",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        return messages
