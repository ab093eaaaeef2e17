"""The page in a real Chromium, over the gateway with a scripted engine and the real judge."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page as Tab
from playwright.async_api import async_playwright, expect

from clawrl.config import schema
from clawrl.gateway.access import AccessCheck
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.judge.cues import CuesJudge
from clawrl.judge.rated import RatedJudge
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction, Sample, Verdict
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy
from clawrl.ui.mount import open_page
from clawrl.ui.page import Page
from clawrl.ui.view import RunView
from tests.stub_engine import StubEngine

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
SHOTS = os.environ.get("CLAWRL_SCREENSHOTS")
"""A folder for pictures of the page, for people who want to look."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Gradio's and its event loops'
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]


class Engine(StubEngine):
    """Knows hints: a hinted prompt is longer, and makes the third token likelier."""

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        likelier = 0.4 if len(prompt_ids) > 3 else 0.0
        return [-0.5 + likelier * (at == 2) for at in range(len(reply_ids))]


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1100, "height": 900})
        yield page
        await browser.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[str]:
    """The page's address."""
    folder = RunFolder(tmp_path)
    writer = RecordWriter(folder, version=3, queue_records=1000)
    engine = Engine("The answer is <b>4</b>.", "It is four.", "You are welcome.")
    config = schema.Gateway(record_wait_ms=5000)
    access = AccessCheck(config)
    judge = RatedJudge(CuesJudge())
    judging: set[asyncio.Task[None]] = set()
    url = ""

    async def judged(interaction: Interaction, feedback: Feedback) -> None:
        verdict: Verdict = await judge.judge(interaction, feedback)
        writer.put(verdict)
        writer.put(
            Sample(
                interaction_id=interaction.interaction_id,
                session_id=interaction.session_id,
                accepted=True,
                prompt_ids=interaction.prompt_ids or [],
                reply_ids=interaction.reply_ids or [],
                behaviour_logp=interaction.behaviour_logp or [],
                score=verdict.score,
                hint=verdict.hint,
                hinted_prompt_ids=[1, 2, 3, 4] if verdict.hint else None,
                weights=interaction.weights,
            )
        )

    def on_feedback(interaction: Interaction, feedback: Feedback) -> None:
        judging.add(asyncio.create_task(judged(interaction, feedback)))

    page = Page(
        view=RunView(folder),
        engine=engine,
        objective=schema.Objective(),
        decode=lambda token: f"token{token} ",
        base_url=lambda: url,
        version=lambda: 3,
        model_name="policy",
        user_of=access.user_of,
        keyed=False,
    )
    async with open_page(page, access.check_origin) as mounted:
        app = create_app(
            engine=engine,
            served=ServedPolicy(3, "d3"),
            writer=writer,
            config=config,
            model_name="policy",
            template_kwargs={},
            temperature=1.0,
            on_feedback=on_feedback,
            page=mounted,
        )
        async with GatewayServer(app, "127.0.0.1", 0) as gateway:
            url = gateway.base_url
            yield f"{url}/ui/"
    writer.close()


async def shot(tab: Tab, name: str) -> None:
    if SHOTS:
        await tab.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


async def say(tab: Tab, words: str, reply: str) -> None:
    await tab.locator("#words textarea, #words input").fill(words)
    await tab.locator("#send").click()
    await expect(tab.locator("#chat")).to_contain_text(reply, timeout=30_000)


async def test_somebody_talks_corrects_and_sees_what_is_learned(tab: Tab, served: str) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    await tab.goto(served, timeout=60_000)
    await expect(tab.locator("body")).to_contain_text("policy, version 3", timeout=60_000)

    await say(tab, "What is 2+2?", "The answer is <b>4</b>.")  # shown as text, not as markup
    await say(tab, "No markup please.", "It is four.")
    await tab.locator("#better textarea, #better input").fill("Say it in French.")
    await tab.locator("#correct").click()
    await expect(tab.locator("#told")).to_contain_text("Thanks", timeout=30_000)
    await tab.locator("#better textarea, #better input").fill("Once more.")
    await tab.locator("#correct").click()
    await expect(tab.locator("#told")).to_contain_text("already", timeout=30_000)
    await shot(tab, "chat")

    await tab.get_by_role("tab", name="What was learned").click()
    await tab.locator("#refresh-turns").click()
    facts = tab.locator("#facts textarea")
    await expect(facts).to_have_value(_holding("It is four."), timeout=30_000)
    await expect(facts).to_have_value(_holding("verdict: -1"))
    await expect(facts).to_have_value(_holding("Say it in French."))
    await expect(tab.locator("#tokens")).to_contain_text("token12", timeout=30_000)
    await shot(tab, "learned")

    await tab.get_by_role("tab", name="Sessions").click()
    await tab.locator("#refresh-sessions").click()
    await expect(tab.locator("#sessions")).to_contain_text("user 2", timeout=30_000)
    await shot(tab, "sessions")

    await tab.get_by_role("tab", name="Curves").click()
    await tab.locator("#refresh-curves").click()
    await expect(tab.locator("#curves img")).to_be_visible(timeout=30_000)
    await shot(tab, "curves")

    base = served.removesuffix("/ui/")
    elsewhere = [url for url in asked if not url.startswith((base, "data:", "blob:"))]
    reached: list[Any] = elsewhere
    assert all("127.0.0.1" in url for url in reached) or not reached, reached


def _holding(words: str) -> Any:
    import re

    return re.compile(re.escape(words))


async def test_a_thumb_down_is_a_verdict(tab: Tab, served: str, tmp_path: Path) -> None:
    await tab.goto(served, timeout=60_000)
    await say(tab, "What is 2+2?", "The answer is <b>4</b>.")
    await tab.get_by_label("Dislike").or_(tab.get_by_title("Dislike")).first.click()
    await expect(tab.locator("#told")).to_contain_text("Thanks", timeout=30_000)
    feedback = list(RunFolder(tmp_path).feedback.read())
    assert [(one.source, one.score) for one in feedback] == [("explicit", -1)]


async def test_another_site_s_page_cannot_talk_to_it(served: str) -> None:
    import httpx

    async with httpx.AsyncClient() as client:
        answer = await client.get(served, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        answer = await client.get(served, headers={"host": "rebound.example"})
        assert answer.status_code == 403
        answer = await client.get(served)
    assert answer.status_code == 200
    assert "default-src 'self'" in answer.headers["content-security-policy"]
