import pytest

from clawrl.tastes.assistant import ASSISTANT
from clawrl.tastes.known import TASTES

THOROUGH = (
    "The question asks how much Ann earns. She works 6 hours and gets £9 an hour. First, multiply "
    "the two, because each hour brings the same: 6 x 9 = 54. To check, 54 / 6 = 9, as it should "
    "be. So Ann earns £54."
)
CASES = [
    ("says_what_is_asked", "We want to find the price of one pen.", "The price is 4."),
    ("says_what_is_asked", "To find out how many are left, take 3.", "To solve this, take 3."),
    ("introduces_the_numbers", "He buys 3 pens and has £20.", "He buys 3 pens."),
    ("introduces_the_numbers", "It is 20% of 50 pages.", "3 + 4 = 7, so 3 pens and 4 pencils."),
    ("shows_the_calculation", "So 12 \N{MULTIPLICATION SIGN} 3 = 36.", "The result is 36."),
    ("shows_the_calculation", "It is $5 + $7 = $12.", "x = 12"),
    ("shows_the_calculation", r"(3 + 4) \times 2 = 14", "3 - 4 - 5"),
    ("names_the_operation", "Subtract the eaten ones.", "She adores 3 - 2 = 1."),
    ("gives_a_reason", "It is 7, since two were lost.", "It is 7."),
    ("links_the_steps", "First the total, then the share.", "The total, and the share."),
    ("checks_the_result", "Check: 7 - 4 = 3.", "The checkered one costs 3."),
    ("ends_with_the_result", "3 + 4 = 7.\nSo Tom has 7 apples.", "So Tom has 7 apples.\n3 + 4 = 7"),
    ("ends_with_the_result", "Tom has now 7 apples!", "Tom has now 7 apples"),
    ("ends_with_the_result", "Tom has now 7 apples.", "Tom has 7. That is how many he has now."),
]


def result(name: str, reply: str) -> bool:
    return next(check for check in ASSISTANT.checks if check.name == name).passes(reply)


def test_the_assistant_is_known_by_name():
    assert TASTES["assistant"] is ASSISTANT
    assert len(ASSISTANT.checks) >= 6


@pytest.mark.parametrize(("name", "passing", "failing"), CASES)
def test_each_check_tells_a_reply_that_has_its_part_from_one_that_lacks_it(name, passing, failing):
    assert result(name, passing)
    assert not result(name, failing)


def test_every_check_is_tried_here():
    assert {name for name, _, _ in CASES} == {check.name for check in ASSISTANT.checks}


def test_a_thorough_reply_passes_all_in_few_words():
    assert ASSISTANT.failed(THOROUGH, "stop") == []
    assert len(THOROUGH.split()) < 70


def test_length_alone_gains_nothing():
    padding = " ".join(f"There is much that one could say about matter {n}." for n in "abcdefgh")
    assert ASSISTANT.score(padding, "stop") == 0
    repeated = THOROUGH + " So Ann earns £54." * 8
    assert ASSISTANT.score(repeated, "stop") == 0
