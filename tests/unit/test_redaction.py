"""Personal data is blanked, and what only looks like it is kept."""

from __future__ import annotations

import pytest

from clawrl.gateway.redaction import redact


@pytest.mark.parametrize(
    ("text", "clean", "kind"),
    [
        ("pay with 4111 1111 1111 1111 now", "pay with [card] now", "card"),
        ("card 378282246310005.", "card [card].", "card"),
        ("mail ann.lee+x@example.co.uk, ok", "mail [email], ok", "email"),
        ("to DE89 3704 0044 0532 0130 00 please", "to [iban] please", "iban"),
        ("call +1 415-555-2671 today", "call [phone] today", "phone"),
        ("call +49 30 901820", "call [phone]", "phone"),
        ("OPENAI_API_KEY=sk-proj-" + "aB3" * 12, "OPENAI_API_KEY=[key]", "key"),
        ("token ghp_" + "a1B2" * 9, "token [key]", "key"),
    ],
)
def test_personal_data_is_blanked_where_it_stands(text: str, clean: str, kind: str) -> None:
    found = redact(text)
    assert (found.value, found.kinds) == (clean, [kind])


@pytest.mark.parametrize(
    "text",
    [
        "12 + 7 = 19, and 123456789 * 987654321 = 121932631112635269",
        "4111 1111 1111 1112 fails the check",
        "550e8400-e29b-41d4-a716-446655440000",
        "commit 39580a8f0c1d2e3b4a5968778695a4b3c2d1e0ff",
        "x = a @ b; user@localhost; 2026-12-04T19:21:00",
        "pi is 3.14159265358979323846",
    ],
)
def test_what_only_looks_like_personal_data_is_kept(text: str) -> None:
    assert redact(text).value == text
    assert redact(text).kinds == []


def test_all_texts_of_a_json_value_are_read() -> None:
    value = {"messages": [{"content": [{"text": "a@example.org"}], "n": 4}], "none": None}
    found = redact(value)
    assert found.value == {"messages": [{"content": [{"text": "[email]"}], "n": 4}], "none": None}
    assert found.kinds == ["email"]
