import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawrl.config.build import build
from clawrl.config.compose import compose
from clawrl.config.schema import Plugin
from clawrl.errors import ConfigError, JudgeError
from clawrl.judge.committee import CommitteeJudge
from clawrl.judge.members import Member, committee_name, members_of, verdict_name
from clawrl.judge.votes import deliberate, replay
from clawrl.protocols import Judge
from clawrl.records.nouns import Cost, HintVote, Verdict, Vote
from tests.factories import make_feedback, make_interaction
from tests.judge_endpoint import Endpoint, serving


class Scripted(Judge):
    """Votes as it is told to."""

    closed = 0
    waiting = 0

    def __init__(self, *, name, votes=(), hints=(), delay_s=0.0, fails=False):
        self.name = name
        self.votes, self.hints = votes, hints
        self.delay_s, self.fails = delay_s, fails

    async def judge(self, interaction, feedback):
        await asyncio.sleep(self.delay_s)
        if self.fails:
            raise OSError("no")
        return Verdict(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            judge=f"{self.name}@v7",
            votes=[Vote(score=score) for score in self.votes],
            score=None,
            hints=[HintVote(hint=hint) for hint in self.hints],
            cost=Cost(calls=len(self.votes), prompt_tokens=10, completion_tokens=1),
        )

    async def aclose(self):
        Scripted.closed += 1


@pytest.fixture
def member(monkeypatch):
    """A member's section; its class is found under a module that imports like any plug-in."""
    import sys
    import types

    module = types.ModuleType("scripted_judges")
    module.Scripted = Scripted
    monkeypatch.setitem(sys.modules, "scripted_judges", module)

    def section(name, votes=(), **options):
        target = {"_target_": "scripted_judges.Scripted"}
        return target | {"name": name, "votes": list(votes)} | options

    return section


async def decided(**members):
    judge = CommitteeJudge(members=members, member_timeout_s=0.3)
    about = make_interaction()
    return await judge.judge(about, make_feedback(about))


async def test_every_vote_of_every_member_counts(member):
    verdict = await decided(a=member("a", [1]), b=member("b", [-1, -1, 1]), c=member("c", [-1]))
    assert verdict.score == -1
    assert [vote.score for vote in verdict.votes] == [1, -1, -1, 1, -1]
    assert (verdict.cost.calls, verdict.cost.prompt_tokens) == (5, 30)
    assert verdict.cost.completion_tokens == 3


async def test_a_weight_outvotes_a_number(member):
    verdict = await decided(a=member("a", [1], weight=3.5), b=member("b", [-1, -1, -1]))
    assert verdict.score == 1
    assert verdict.judge == "committee/1[3.5*a@v7(1+0),1*b@v7(3+0)]"


async def test_a_tie_of_weights_is_0_also_where_binary_fractions_differ(member):
    members = {
        "a": member("a", [1], weight=0.1),
        "b": member("b", [1], weight=0.2),
        "c": member("c", [-1], weight=0.3),
    }
    assert (await decided(**members)).score == 0


async def test_the_hint_is_the_longest_of_the_members_that_agree(member):
    verdict = await decided(
        a=member("a", [-1], hints=["Write two sentences."]),
        b=member("b", [-1], hints=["Use plain words in each of them."]),
        c=member("c", [1], hints=["A much longer hint of the member that was outvoted by others."]),
        d=member("d", [None], hints=["Another long hint of the member that had nothing to say."]),
    )
    assert (verdict.score, verdict.hint) == (-1, "Use plain words in each of them.")
    assert len(verdict.hints) == 4
    assert replay(verdict.model_copy(update={"score": None, "hint": None})) == verdict


async def test_a_member_that_fails_or_hangs_abstains_and_the_others_stand(member):
    verdict = await decided(
        a=member("a", [1]), b=member("b", [-1] * 5, fails=True), c=member("c", [-1] * 5, delay_s=5)
    )
    assert verdict.score == 1
    assert [vote.problem for vote in verdict.votes] == [None, "OSError", "TimeoutError"]
    assert replay(verdict) == verdict


async def test_nobody_votes_nobody_scores(member):
    verdict = await decided(a=member("a", [None]), b=member("b", [None, None]))
    assert (verdict.score, verdict.hint) == (None, None)


async def test_the_members_are_asked_at_the_same_time(member):
    verdict = await decided(**{name: member(name, [1], delay_s=0.15) for name in "abcd"})
    assert verdict.score == 1
    assert verdict.cost.seconds < 0.4


async def test_all_members_are_closed(member):
    Scripted.closed = 0
    judge = CommitteeJudge(members={"a": member("a"), "b": member("b")})
    await judge.aclose()
    assert Scripted.closed == 2


async def test_cues_and_a_model_vote_together_and_are_replayed():
    endpoint = Endpoint([r"\boxed{1}", "who knows", r"\boxed{1}"])
    async with serving(endpoint) as url:
        section = compose(["judge=committee", f"judge.members.prm.base_url={url}"]).judge
        judge = build(section, Judge, key="judge")
        assert judge.name == "committee/1[1*cues/4,1*prm/Qwen/Qwen3-4B]"
        about = make_interaction()
        verdict = await judge.judge(about, make_feedback(about, content="too long"))
        await judge.aclose()
    assert verdict.votes[0].score == -1
    assert verdict.score == 1
    # The hint of the outvoted cues is not taken; the model's own members agree with the score.
    assert verdict.hint == "Write two sentences."
    assert verdict.judge == "committee/1[1*cues/4(1+1),1*prm/Qwen/Qwen3-4B(3+3)]"
    assert replay(Verdict.model_validate_json(verdict.model_dump_json())) == verdict


CUES = {"_target_": "clawrl.judge.cues.CuesJudge"}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({}, "at least one member"),
        ({"a": CUES | {"weight": 0}}, "judge.members.a.weight: must be more than 0"),
        ({"a": CUES | {"weight": "much"}}, "judge.members.a.weight: must be a number"),
        ({"a": {"weight": 1}}, "judge.members.a._target_"),
        ({"a": CUES | {"wieght": 1}}, "judge.members.a.wieght: unknown key"),
        ({"a": {"_target_": "clawrl.judge.prm.PrmJudge", "model": "m"}}, "a.base_url: .* needs it"),
        (
            {
                "a": {
                    "_target_": "clawrl.judge.committee.CommitteeJudge",
                    "members": {"b": CUES},
                }
            },
            "judge.members.a: a committee cannot",
        ),
    ],
)
def test_a_committee_that_cannot_sit_is_one_line(members, problem):
    section = Plugin.model_validate(
        {"_target_": "clawrl.judge.committee.CommitteeJudge", "members": members}
    )
    with pytest.raises(ConfigError, match=problem):
        build(section, Judge, key="judge")


names = st.text(min_size=1, max_size=20)
weights = st.floats(min_value=1e-6, max_value=1e6)
seatings = st.lists(
    st.builds(Member, names, weights, st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4
)


@settings(deadline=None, max_examples=60)
@given(seatings)
def test_the_seats_are_read_out_of_the_name_as_they_were_written(members):
    assert members_of(verdict_name(members)) == members


def test_other_judges_have_no_seats():
    assert members_of("cues/4") is None
    assert members_of("prm/committee/1") is None
    assert committee_name([("a b", 1.0)]) == "committee/1[1*a%20b]"


@pytest.mark.parametrize("name", ["committee/1[", "committee/1[1*a]", "committee/1[x*a(1+0)]"])
def test_a_committee_s_name_that_cannot_be_read_is_an_error(name):
    with pytest.raises(JudgeError):
        members_of(name)


def test_votes_that_do_not_fit_the_seats_are_an_error():
    with pytest.raises(JudgeError, match="2 votes"):
        deliberate([Member("a", 1.0, 1, 0)], [Vote(score=1), Vote(score=1)], [])


ballots = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1.0, 2.0, 3.0]),
        st.lists(st.sampled_from([-1, 0, 1, None]), max_size=4),
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=60)
@given(ballots)
def test_the_weighted_majority_agrees_with_a_plain_loop(members):
    committee = [Member("m", weight, len(scores), 0) for weight, scores in members]
    votes = [Vote(score=score) for _, scores in members for score in scores]
    sums = {-1: 0.0, 0: 0.0, 1: 0.0}
    for weight, scores in members:
        for score in scores:
            if score is not None:
                sums[score] += weight  # halves: exact in floating point
    best = [score for score, total in sums.items() if total == max(sums.values()) > 0]
    expected = None if not best else best[0] if len(best) == 1 else 0
    assert deliberate(committee, votes, [])[0] == expected
