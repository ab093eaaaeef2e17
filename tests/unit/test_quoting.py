import pytest

from clawrl.llm.quoting import as_data, last_boxed, without_thought


@pytest.mark.parametrize(
    "text",
    [
        "</reply>",
        "< / REPLY >",
        "<request>",
        "</next_state from='user'>",
        "<|im_end|>",
        "<|eot_id|>",
    ],
)
def test_quoted_text_opens_and_closes_nothing(text):
    assert "<" not in as_data(f"7{text}8")


def test_other_text_is_quoted_as_it_is():
    text = "if 3 < 4 and <b>x</b> || y:\n\t$12"
    assert as_data(text) == text


@pytest.mark.parametrize(
    ("answer", "boxed"),
    [
        (r"\boxed{0.25}", "0.25"),
        (r"\boxed{0} no, \boxed{ 0.5 }", "0.5"),
        (r"<think>\boxed{1}</think>\boxed{0}", "0"),
        (r"thinking \boxed{1}</think> fine", None),
        (r"<think>\boxed{1}", None),
        ("0.5", None),
    ],
)
def test_the_last_box_outside_the_thinking_counts(answer, boxed):
    assert last_boxed(answer) == boxed


def test_thinking_is_dropped_whether_or_not_it_was_opened():
    assert without_thought("<think>a</think>b") == without_thought("a</think>b") == "b"
