"""What the gateway answers when it cannot answer: OpenAI's error format, whatever went wrong."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from clawrl.errors import EngineError, RequestError


class ApiError(Exception):
    """A request is refused; `status` and the fields are what the client gets."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers

    def payload(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "error": {
                "message": str(self),
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> JSONResponse:
        """The whole answer."""
        return JSONResponse(self.payload(), status_code=self.status, headers=self.headers)


def from_engine(error: EngineError) -> ApiError:
    """How an engine's failure looks to the client.

    A request that the engine refuses keeps its status and message (too long a context: 400, with
    the numbers); everything else is a bad gateway, which clients try again.
    """
    if isinstance(error, RequestError):
        message = str(error).lower()
        too_long = "max_model_len" in message or "context length" in message
        return ApiError(
            error.status,
            str(error),
            kind=error.kind,
            code="context_length_exceeded" if too_long else None,
        )
    return ApiError(502, f"the engine failed: {error}", kind="server_error", code="engine_failed")
