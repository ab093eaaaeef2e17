"""Blank personal data in what is about to be recorded. Pure; the same text gives the same result.

Found are card numbers (Luhn), IBANs (check digits), e-mail addresses, international phone numbers
(number plans), and keys and tokens of known forms. A number alone is nobody's: what passes no check
stays, so that arithmetic, UUIDs and hashes are kept as they are.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

import phonenumbers
from stdnum import iban, luhn

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<![\w.-])[3-6]\d{3}(?:[ -]?\d{2,6}){2,4}(?![\w-])")
_CARD_DIGITS = (13, 19)
_KEPT_CLEAN = 65_536
_PHONE = re.compile(r"(?<![\w+])(?:\+|00)[1-9](?:[ ().-]{0,2}\d){6,14}(?!\w)")
_KEYS = re.compile(
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z]{2,12}[-_])*[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bAIza[\w-]{35}|(?<=Bearer )[\w.~+/-]{20,}=*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_DETECTORS = (
    "AWSKeyDetector",
    "GitHubTokenDetector",
    "GitLabTokenDetector",
    "JwtTokenDetector",
    "NpmDetector",
    "PypiTokenDetector",
    "SendGridDetector",
    "SlackDetector",
    "StripeDetector",
)


@dataclass(frozen=True, slots=True)
class Redacted:
    """A value without personal data, and the kinds that were blanked in it."""

    value: Any
    kinds: list[str]


def redact(value: Any) -> Redacted:
    """Blank personal data in a text, or in all texts of a JSON value, names of keys included.

    Args:
        value: a string, or lists and objects of strings; anything else stays as it is.

    Returns:
        The value with `[card]`, `[email]`, `[iban]`, `[key]` or `[phone]` in each place, and the
        sorted kinds; without kinds the value is equal to the given one.
    """
    kinds: set[str] = set()
    return Redacted(_walk(value, kinds), sorted(kinds))


class Redactor:
    """Redacts requests and replies; texts that were clean before are not read again."""

    def __init__(self) -> None:
        self._clean: OrderedDict[bytes, None] = OrderedDict()

    def redact(self, value: Any) -> Redacted:
        """As `redact`; safe to call from several threads."""
        parts = value if isinstance(value, list) else [value]
        kinds: set[str] = set()
        done = [self._part(part, kinds) for part in parts]
        return Redacted(done if isinstance(value, list) else done[0], sorted(kinds))

    def _part(self, part: Any, kinds: set[str]) -> Any:
        raw = json.dumps(part, ensure_ascii=True).encode()
        digest = blake2b(raw, digest_size=16).digest()
        if digest in self._clean:
            return part
        redacted = redact(part)
        kinds.update(redacted.kinds)
        if not redacted.kinds:
            self._clean[digest] = None
            while len(self._clean) > _KEPT_CLEAN:
                self._clean.popitem(last=False)
        return redacted.value


def _walk(value: Any, kinds: set[str]) -> Any:
    if isinstance(value, str):
        return _text(value, kinds)
    if isinstance(value, list):
        return [_walk(part, kinds) for part in value]
    if isinstance(value, dict):
        return {_walk(name, kinds): _walk(part, kinds) for name, part in value.items()}
    return value


def _text(text: str, kinds: set[str]) -> str:
    for kind, pattern, real in _rules():
        text = pattern.sub(_blank(kind, real, kinds), text)
    return text


def _blank(
    kind: str, real: Callable[[str], bool], kinds: set[str]
) -> Callable[[re.Match[str]], str]:
    def one(match: re.Match[str]) -> str:
        if not real(match[0]):
            return match[0]
        kinds.add(kind)
        return f"[{kind}]"

    return one


@cache
def _rules() -> list[tuple[str, re.Pattern[str], Callable[[str], bool]]]:
    """Longest forms first: an IBAN holds digits that may look like a card's."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    detectors = {one.__name__: one for one in get_mapping_from_secret_type_to_class().values()}
    tokens: list[re.Pattern[str]] = [
        pattern for name in _DETECTORS for pattern in getattr(detectors[name], "denylist", ())
    ]
    return [
        *(("key", pattern, _always) for pattern in (_KEYS, *tokens)),
        ("email", _EMAIL, _always),
        ("iban", _IBAN, iban.is_valid),
        ("card", _CARD, _is_card),
        ("phone", _PHONE, _is_phone),
    ]


def _always(_found: str) -> bool:
    return True


def _is_card(found: str) -> bool:
    digits = re.sub(r"\D", "", found)
    fewest, most = _CARD_DIGITS
    return fewest <= len(digits) <= most and luhn.is_valid(digits)


def _is_phone(found: str) -> bool:
    digits = "+" + found[2:] if found.startswith("00") else found
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(digits))
    except phonenumbers.NumberParseException:
        return False
