import re

import pytest

from clawrl.collect.scripted import (
    ScriptedAssistant,
    ScriptedStudent,
    ScriptedTeacher,
    read_phrases,
)
from clawrl.errors import ConfigError
from clawrl.protocols import Problem

PROBLEM = Problem("p1", "Tom has 3 apples and buys 4 more. How many has he?", "7")
PERSONAS = {
    "student": ScriptedStudent,
    "teacher": ScriptedTeacher,
    "assistant": ScriptedAssistant,
}
LIKED = {
    "student": (
        "Tom had 3 apples at first. At the shop he bought 4 more, and the two numbers together "
        "are 3 + 4 = 7. That means Tom has 7 apples in the end."
    ),
    "teacher": (
        "Well done, your addition 3 + 4 = 7 is correct! I liked how clear it is. "
        "Next time try to write the unit beside the 7."
    ),
    "assistant": (
        "The question asks how many apples Tom has in the end. He starts with 3 apples and buys "
        "4 more apples. First, add the two numbers, because buying gives him more: 3 + 4 = 7. "
        "To check, take the bought ones away again, and 7 - 4 = 3 is what he had. "
        "So Tom has 7 apples in the end."
    ),
}
STOCK = (
    "To solve this problem, we need to break it down step by step.\n1. Add 3.\nThus it is **7**."
)


@pytest.fixture(params=sorted(PERSONAS))
def name(request):
    return request.param


@pytest.fixture
def persona(name):
    return PERSONAS[name]()


async def reactions(persona, reply, finish_reason="stop", turn=0, count=400):
    return [await persona.react(PROBLEM, reply, finish_reason, turn, seed) for seed in range(count)]


async def test_a_reply_that_is_liked_is_thanked_for_and_ends_the_session(persona, name):
    assert persona.taste.failed(LIKED[name], "stop") == []
    said = await reactions(persona, LIKED[name])
    thanks = read_phrases(name).thanks
    assert sum(reaction.text in thanks for reaction in said) > 0.9 * len(said)
    assert all(reaction.done for reaction in said)


async def test_what_is_disliked_is_complained_about_in_many_ways(persona):
    said = await reactions(persona, STOCK)
    complaints = [reaction.text for reaction in said if not reaction.done]
    assert len(complaints) > 0.6 * len(said)
    assert len(set(complaints)) > 30


@pytest.mark.parametrize(
    ("reply", "finish_reason", "problem"),
    [
        ("", "stop", "empty"),
        ("7", "stop", "empty"),
        ("Tom has 7 apples in the end.", "stop", "bare"),
        ("Tom had 3 apples and then he", "length", "cut_off"),
        ("He has 7 apples in the end. " * 6, "stop", "repetitive"),
        ("Tom has a lot of apples now.", "stop", "no_number"),
    ],
)
async def test_a_reply_without_substance_is_never_accepted(
    persona, name, reply, finish_reason, problem
):
    said = await reactions(persona, reply, finish_reason)
    phrases = read_phrases(name)
    assert not any(reaction.text in phrases.thanks for reaction in said)
    about_it = tuple(phrases.substance[problem])
    assert any(reaction.text and reaction.text.startswith(about_it) for reaction in said)


async def test_a_persona_is_now_and_then_silent_or_elsewhere_and_sometimes_asks_more(persona, name):
    phrases = read_phrases(name)
    said = await reactions(persona, STOCK, count=2000)
    silent = sum(reaction.text is None for reaction in said) / 2000
    unrelated = sum(reaction.text in phrases.unrelated for reaction in said) / 2000
    more = sum(bool(r.text) and r.text.endswith(tuple(phrases.new_questions)) for r in said) / 2000
    implicit = sum(bool(r.text) and r.text.startswith(tuple(phrases.implicit)) for r in said) / 2000
    assert 0.01 < silent < 0.03
    assert 0.015 < unrelated < 0.045
    assert 0.05 < more < 0.2
    assert 0.02 < implicit < 0.12
    assert all(reaction.done for reaction in said if reaction.text is None)


async def test_the_same_seed_and_turn_say_the_same(persona):
    first = await reactions(persona, STOCK, count=30)
    assert first == await reactions(type(persona)(), STOCK, count=30)
    assert first != await reactions(persona, STOCK, turn=1, count=30)


async def test_complaints_go_round_over_the_turns(persona, name):
    style = read_phrases(name).style
    check_of = {phrase: check for check, phrases in style.items() for phrase in phrases}
    failed = persona.taste.failed(STOCK, "stop")
    named = set()
    for turn in range(len(failed)):
        for seed in range(40):
            reaction = await persona.react(PROBLEM, STOCK, "stop", turn, seed)
            named.add(check_of.get(reaction.text or ""))
    assert set(failed) <= named


async def test_the_less_patient_persona_lets_less_pass(name):
    reply = f"{LIKED[name]} The student did that. We know 7."
    calm, strict = (PERSONAS[name](patience=patience) for patience in (20.0, 1.0))
    assert calm.taste.failed(reply, "stop")
    accepted = [
        sum(reaction.done for reaction in await reactions(persona, reply))
        for persona in (calm, strict)
    ]
    assert accepted[1] < 50 < 300 < accepted[0]


def test_every_check_and_problem_has_many_phrasings(persona, name):
    phrases = read_phrases(name)
    assert set(phrases.style) == {check.name for check in persona.taste.checks}
    assert set(phrases.substance) == {"empty", "bare", "cut_off", "repetitive", "no_number"}
    groups = [*phrases.style.values(), *phrases.substance.values()]
    for group in [*groups, phrases.implicit, phrases.thanks]:
        assert len(set(group)) == len(group) >= 8


def test_openings_hold_the_problem_and_vary_with_the_seed(persona):
    texts = {persona.opening(PROBLEM, seed)[0]["content"] for seed in range(40)}
    assert len(texts) >= 4
    assert all(PROBLEM.question in text for text in texts)
    assert not any(re.search(r"\{\w+\}", text) for text in texts)
    assert persona.opening(PROBLEM, 3) == type(persona)().opening(PROBLEM, 3)


def test_the_student_may_be_given_other_words_to_ask_with():
    asks = ScriptedStudent(openings=["Do this: {question}"])
    assert asks.opening(PROBLEM, 5) == [{"role": "user", "content": f"Do this: {PROBLEM.question}"}]


@pytest.mark.parametrize("openings", [[], ["Do my homework."]])
def test_an_opening_without_the_question_is_refused(openings):
    with pytest.raises(ConfigError, match=r"persona\.openings: .*\{question\}"):
        ScriptedStudent(openings=openings)


def test_braces_in_a_problem_stay_as_they_are(persona):
    problem = Problem("p2", r"What is \frac{answer}{question}?", "2")
    assert problem.question in persona.opening(problem, 0)[0]["content"]


def test_the_teacher_has_right_and_wrong_work_graded():
    texts = [ScriptedTeacher().opening(PROBLEM, seed)[0]["content"] for seed in range(40)]
    right = sum("3 + 4 = 7" in text for text in texts)
    assert 8 < right < 32
    assert all(re.search(r"(correct answer is|should be) 7\b", text) for text in texts)
