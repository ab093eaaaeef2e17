"""Texts that stand where a reply should be: nothing, or an error of what serves the model.

A client that does not look at the status shows an error's text as if the model had said it. Such a
text has no steps, no bold and no lists, so that a rule on style would pass it: it never may.
"""

from __future__ import annotations

import json
import re
from typing import Any

from clawrl.llm.quoting import without_thought

_FAILED = ("error", "abort")
"""vLLM's finish reasons of a reply that did not end by itself or by its length."""

_ERROR_TEXT = re.compile(
    r"""\A\W*(?:
    # the gateway's own
      the\ engine\ (?:failed:|took\ more\ than\ |gave\ no\ answer\ to\ )
    | the\ gateway\ failed\W*\Z
    | the\ run\ is\ ending:\ no\ more\ turns
    | the\ reply\ ended\ without\ a\ finish\ reason
    | the\ body\ (?:is\ not\ valid\ JSON|must\ be\ a\ JSON\ object|is\ larger\ than\ \d)
    | wrong\ or\ missing\ API\ key
    | requests\ from\ \S+\ are\ refused
    | Host\ '[^']*'\ is\ not\ this\ gateway's
    | content\ type\ '[^']*'\ is\ refused
    | (?:GET|POST|PUT|HEAD)\ /\S*:\ not\ served\ here
    | n\ must\ be\ 1\ on\ a\ main\ turn
    # vLLM's
    | this\ model's\ maximum\ context\ length\ is\ \d
    | the\ (?:decoder\ )?prompt\ \(length\ \d+\)
    | (?:EngineCore|EngineDeadError|EngineGenerateError|AsyncEngineDeadError)\b
    | the\ model\ `[^`]*`\ does\ not\ exist
    # clients', proxies' and agents'
    | error\ code:\ \d{3}\b
    | (?:(?:HTTP\S*\ )?(?:error\ )?[45]\d\d\W+)?
      (?:internal\ server\ error|bad\ gateway|service\ (?:temporarily\ )?unavailable
        |gateway\ time-?out|too\ many\ requests)\W*\Z
    | (?:connection\ error|request\ timed\ out|connection\ refused)\W*\Z
    | upstream\ (?:connect\ error|request\ timeout)
    | (?:HTTP|API|LLM|server|gateway|upstream)\ (?:request\ |call\ )?(?:error|failed|timed\ out)\b
    | Traceback\ \(most\ recent\ call\ last\)
    )
    | <title>\s*[45]\d\d\b""",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR_BODY = re.compile(
    r"""^(?:data:\s*)?\{\s*(?:['"]error['"]\s*:\s*['"{]|['"]object['"]\s*:\s*['"]error['"])""",
    re.MULTILINE,
)


def is_empty(text: str | None) -> bool:
    """Whether nothing is said: no letter and no digit outside the thinking."""
    return not any(character.isalnum() for character in without_thought(text or ""))


def is_no_reply(text: str | None, finish_reason: str | None) -> bool:
    """Whether this is no reply of a model: empty, only white space or thinking, or an error.

    Errors are the gateway's and vLLM's own texts, their JSON bodies (`{"error": {...}}`, also as an
    event of a broken stream), what the OpenAI client and HTTP proxies say in their place, and the
    finish reasons `error` and `abort`. A reply that speaks *about* an error is a reply.
    """
    if text is None or finish_reason in _FAILED or is_empty(text):
        return True
    said = without_thought(text).strip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return _ERROR_TEXT.search(said) is not None or _is_error_body(said)


def _is_error_body(said: str) -> bool:
    try:
        body: Any = json.loads(said)
    except (ValueError, RecursionError):
        return _ERROR_BODY.search(said) is not None
    if not isinstance(body, dict):
        return False
    return bool(body.get("error")) or body.get("object") == "error" or set(body) == {"detail"}
