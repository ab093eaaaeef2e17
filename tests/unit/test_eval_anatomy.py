from __future__ import annotations

import re

import pytest

from clawrl.report.anatomy import coloured_tokens


def spans(shown: str) -> list[tuple[str, str, str]]:
    """Background, text colour and text of each token, without the legend."""
    body = shown.split("pre-wrap", 1)[1]
    return re.findall(r"background:(#\w+);color:(#\w+)\" title=\"[^\"]*\">([^<]*)</span>", body)


def test_up_is_blue_down_is_red_and_nothing_is_white():
    shown = spans(coloured_tokens(["a", "b", "c"], [2.0, -2.0, 0.0], bound=2.0, label="nats"))
    assert [back for back, _, _ in shown] == ["#2166ac", "#b2182b", "#ffffff"]


def test_text_is_white_where_its_ground_is_dark():
    shown = spans(coloured_tokens(["a", "b", "c"], [1.0, 0.1, -1.0], bound=1.0, label="nats"))
    assert [text for _, text, _ in shown] == ["#fff", "#000", "#fff"]


def test_what_lies_beyond_the_bound_has_the_bounds_colour():
    shown = spans(coloured_tokens(["a", "b"], [9.0, 2.0], bound=2.0, label="nats"))
    assert shown[0][:2] == shown[1][:2]


def test_no_token_and_no_label_is_read_as_html():
    shown = coloured_tokens(["<b>", "&", "\n"], [0.0, 0.0, 0.0], bound=1.0, label="<i>")
    assert [text for _, _, text in spans(shown)] == ["&lt;b&gt;", "&amp;", "↵\n"]
    assert "<b>" not in shown
    assert "<i>" not in shown


def test_each_number_can_be_read_in_its_tooltip():
    assert 'title="-0.25"' in coloured_tokens(["a"], [-0.25], bound=1.0, label="nats")


@pytest.mark.parametrize(("values", "bound"), [([0.0, 1.0], 1.0), ([0.0], 0.0)])
def test_what_cannot_be_coloured_is_an_error(values: list[float], bound: float):
    with pytest.raises(ValueError, match=r"as many|above 0"):
        coloured_tokens(["a"], values, bound=bound, label="nats")
