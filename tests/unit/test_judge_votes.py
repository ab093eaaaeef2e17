import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.judge.votes import choose_hint, majority, parse_hint, parse_vote, replay
from clawrl.records.nouns import HintVote, Verdict, Vote

votes_of_any_length = st.lists(st.sampled_from([-1, 0, 1, None]).map(lambda s: Vote(score=s)))


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (r"He thanks. \boxed{1}", 1),
        (r"\boxed{+1}", 1),
        (r"\boxed{ -1 }", -1),
        ("\\boxed{\u22121}", -1),
        (r"\boxed{0}", 0),
        (r"first \boxed{1}, no: \boxed{-1}", -1),
        (r"<think>maybe \boxed{1}</think>\boxed{-1}", -1),
        (r"maybe \boxed{1}</think>\boxed{0}", 0),
    ],
)
def test_a_vote_is_the_last_boxed_score_outside_the_thinking(text, score):
    assert parse_vote(text) == Vote(score=score)


@pytest.mark.parametrize(
    "text", ["", "1", r"\boxed{2}", r"\boxed{}", r"\boxed{1} \boxed{good}", r"<think>\boxed{1}"]
)
def test_an_answer_without_a_score_abstains_and_is_not_0(text):
    assert parse_vote(text) == Vote(score=None, problem="no_boxed_score")


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1, 1, -1], 1),
        ([-1, None, None], -1),
        ([1, -1], 0),
        ([1, -1, 0], 0),
        ([0, 0, 1], 0),
        ([None, None], None),
        ([], None),
    ],
)
def test_the_majority_is_taken_over_parsed_votes_and_a_tie_is_0(scores, expected):
    assert majority([Vote(score=score) for score in scores]) == expected


@given(votes_of_any_length)
def test_flipping_every_vote_flips_the_verdict(votes):
    flipped = [Vote(score=None if v.score is None else -v.score) for v in votes]
    score = majority(votes)
    assert majority(flipped) == (None if score is None else -score)


@given(votes_of_any_length)
def test_an_abstention_changes_no_verdict(votes):
    assert majority([*votes, Vote(score=None)]) == majority(votes)


def test_a_hint_stands_between_its_markers():
    thought = "<think>[HINT_START]no[HINT_END]</think>"
    answer = thought + "\\boxed{1}\n[HINT_START] Write\n it short. [HINT_END]"
    assert parse_hint(answer) == HintVote(hint="Write it short.")


def test_no_hint_is_an_answer_and_no_problem():
    assert parse_hint(r"\boxed{-1}") == HintVote(hint=None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[HINT_START]Write it short.[HINT_END]", "no_boxed_score"),
        (r"\boxed{0}", "no_boxed_score"),
        (r"\boxed{1} Write it short.", "no_marked_hint"),
        (r"\boxed{1}[HINT_START] [HINT_END]", "no_marked_hint"),
        (r"\boxed{1}[HINT_START]Write it sh", "no_marked_hint"),
    ],
)
def test_a_hint_that_cannot_be_read_names_the_problem(text, problem):
    assert parse_hint(text) == HintVote(hint=None, problem=problem)


def test_the_longest_hint_of_more_than_ten_characters_is_chosen():
    hints = ["x" * 10, "Be shorter.", None, "Write it in two sentences.", "Keep it short."]
    assert choose_hint([HintVote(hint=h) for h in hints]) == "Write it in two sentences."
    assert choose_hint([HintVote(hint="x" * 10)]) is None


def test_replay_recomputes_the_verdict_from_what_was_recorded():
    verdict = Verdict(
        interaction_id="i",
        session_id="s",
        judge="prm/m",
        votes=[Vote(score=1), Vote(score=1), Vote(score=None, problem="x")],
        score=None,
        hints=[HintVote(hint="Use plain words.")],
    )
    again = replay(verdict)
    assert (again.score, again.hint) == (1, "Use plain words.")
    assert replay(again) == again
