"""The page itself, with Gradio: a client of the gateway like any other, and a reader of records."""

from __future__ import annotations

import asyncio
import html
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from openai import AsyncOpenAI, OpenAIError

from clawrl.config import schema
from clawrl.errors import EngineError
from clawrl.protocols import Engine
from clawrl.ui.curves import draw
from clawrl.ui.tokens import coloured, painted
from clawrl.ui.view import RunView, Turn

if TYPE_CHECKING:
    import gradio as gr

Json = dict[str, Any]
_CHOICES = 200
_FIRST_WORDS = 60
_MAX_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Page:
    """What the page needs of the program."""

    view: RunView
    engine: Engine
    objective: schema.Objective
    decode: Callable[[int], str]
    base_url: Callable[[], str]
    """Of the gateway, without `/v1`; known once it listens."""
    version: Callable[[], int]
    model_name: str
    user_of: Callable[[str], tuple[bool, str | None]]
    """Whether a key lets somebody in, and as whom."""
    keyed: bool
    """Keys are asked for: each sees only its own conversations."""

    def blocks(self) -> gr.Blocks:
        """Build it. Gradio takes seconds to import, so that it is imported here."""
        import gradio as gr

        with gr.Blocks(title="clawrl", analytics_enabled=False) as blocks:
            head = gr.Markdown(self._headline())
            key = gr.Textbox(
                label="API key", type="password", visible=self.keyed, elem_id="key", value="none"
            )
            with gr.Tab("Chat"):
                self._chat(gr, key, head)
            with gr.Tab("What was learned"):
                self._learned(gr, key)
            with gr.Tab("Sessions"):
                self._sessions(gr, key)
            with gr.Tab("Curves"):
                self._curves(gr)
        return blocks

    # --- chat -------------------------------------------------------------------------------------

    def _chat(self, gr: Any, key: Any, head: Any) -> None:
        session = gr.State(lambda: f"ui-{uuid.uuid4().hex}")
        turns = gr.State(list)
        spoken = gr.State(list)
        chat = gr.Chatbot(
            label="conversation",
            height=420,
            elem_id="chat",
            render_markdown=False,
            allow_tags=False,
            buttons=["copy"],
        )
        with gr.Row():
            words = gr.Textbox(
                show_label=False, placeholder="Say something", scale=8, elem_id="words"
            )
            send = gr.Button("Send", variant="primary", scale=1, elem_id="send")
        with gr.Row():
            better = gr.Textbox(
                show_label=False,
                placeholder="What should the last reply have said?",
                scale=8,
                elem_id="better",
            )
            correct = gr.Button("Correct", scale=1, elem_id="correct")
            again = gr.Button("New conversation", scale=1, elem_id="again")
        told = gr.Markdown(elem_id="told")

        async def rate(event: gr.LikeData, asked: list[str | None], api_key: str) -> str:
            at = event.index if isinstance(event.index, int) else event.index[0]
            place = at // 2  # a reply follows each of the user's messages
            identity = asked[place] if place < len(asked) else None
            return await self._feedback(identity, api_key, score=1 if event.liked else -1)

        rate.__annotations__["event"] = gr.LikeData
        heard = [words, spoken, session, turns, key]
        changed = [words, chat, spoken, turns, told, head]
        send.click(self._talk, heard, changed)
        words.submit(self._talk, heard, changed)
        chat.like(rate, [turns, key], told)
        correct.click(self._mend, [better, turns, key], [better, told])
        better.submit(self._mend, [better, turns, key], [better, told])
        again.click(_anew, None, [chat, spoken, turns, session, told])

    async def _talk(
        self, said: str, history: list[Json], session_id: str, asked: list[str | None], api_key: str
    ) -> AsyncIterator[tuple[Any, ...]]:
        if not said.strip():
            yield said, _shown(history), history, asked, "", self._headline()
            return
        history = [*history, {"role": "user", "content": said}]
        reply: Json = {"role": "assistant", "content": ""}
        yield "", _shown([*history, reply]), history, asked, "", self._headline()
        problem = ""
        identity: str | None = None
        try:
            async for named, piece in self._stream(history, session_id, api_key):
                identity = named
                reply = {**reply, "content": reply["content"] + piece}
                yield "", _shown([*history, reply]), history, asked, "", self._headline()
        except OpenAIError as error:
            problem = f"**No reply:** {error}"
        history = [*history, reply]
        yield "", _shown(history), history, [*asked, identity], problem, self._headline()

    async def _mend(self, text: str, asked: list[str | None], api_key: str) -> tuple[str, str]:
        if not text.strip() or not asked:
            return text, "Say something first, then what the reply should have been."
        return "", await self._feedback(asked[-1], api_key, score=-1, text=text)

    async def _stream(
        self, history: list[Json], session_id: str, api_key: str
    ) -> AsyncIterator[tuple[str, str]]:
        """Interaction id and piece of text, as they come."""
        client = AsyncOpenAI(base_url=f"{self.base_url()}/v1", api_key=api_key or "none")
        messages: Any = history
        async with client:
            stream = await client.chat.completions.create(
                model=self.model_name,
                messages=messages,
                max_tokens=_MAX_TOKENS,
                stream=True,
                extra_headers={"x-session-id": session_id, "x-turn-type": "main"},
            )
            async for chunk in stream:
                if chunk.choices:
                    yield chunk.id, chunk.choices[0].delta.content or ""

    async def _feedback(
        self, identity: str | None, api_key: str, *, score: int, text: str = ""
    ) -> str:
        """What to tell the user."""
        if identity is None:
            return "That reply was not recorded."
        body = {"interaction_id": identity, "score": score, "text": text}
        async with httpx.AsyncClient(base_url=self.base_url(), trust_env=False) as client:
            answer = await client.post(
                "/v1/feedback", json=body, headers={"authorization": f"Bearer {api_key}"}
            )
        if answer.status_code == 404:
            return "That reply has its feedback already; the next one can be rated."
        if answer.is_error:
            return f"Not taken: {answer.json()['error']['message']}"
        return "Thanks. It becomes part of one of the next updates."

    # --- what was learned -------------------------------------------------------------------------

    def _learned(self, gr: Any, key: Any) -> None:
        pick = gr.Dropdown(label="turn", choices=[], interactive=True, elem_id="turn")
        fresh = gr.Button("Refresh", elem_id="refresh-turns")
        facts = gr.Textbox(label="what became of it", lines=7, elem_id="facts")
        gr.Markdown("What the next update pushes **up (blue)** and **down (orange)**, by token:")
        tokens = gr.HTML(elem_id="tokens")

        async def refresh(api_key: str) -> Any:
            turns = await self._turns(api_key)
            choices = [(_title(turn), turn.interaction.interaction_id) for turn in turns[:_CHOICES]]
            return gr.Dropdown(choices=choices, value=choices[0][1] if choices else None)

        async def show(identity: str | None, api_key: str) -> tuple[str, str]:
            turns = await self._turns(api_key)
            turn = next((one for one in turns if one.interaction.interaction_id == identity), None)
            if turn is None:
                return "", ""
            return _facts(turn), await self._tokens(turn)

        fresh.click(refresh, key, pick)
        pick.change(show, [pick, key], [facts, tokens])

    async def _turns(self, api_key: str) -> list[Turn]:
        await asyncio.to_thread(self.view.poll)
        allowed, user = self.user_of(api_key)
        if not allowed:
            return []
        return self.view.turns_of(user, everyone=not self.keyed)

    async def _tokens(self, turn: Turn) -> str:
        sample = turn.sample
        if sample is None or not sample.accepted:
            return painted([(str(turn.interaction.reply.get("content") or ""), None)])
        try:
            found = await coloured(
                sample, engine=self.engine, objective=self.objective, decode=self.decode
            )
        except EngineError as error:
            return painted([(f"the engine does not score now: {error}", None)])
        return painted(found)

    # --- sessions and curves ----------------------------------------------------------------------

    def _sessions(self, gr: Any, key: Any) -> None:
        headers = ["session", "user", "main turns", "side turns", "corrections", "kinds", "last"]
        fresh = gr.Button("Refresh", elem_id="refresh-sessions")
        table = gr.Dataframe(headers=headers, interactive=False, elem_id="sessions", wrap=True)

        async def refresh(api_key: str) -> list[list[Any]]:
            await asyncio.to_thread(self.view.poll)
            allowed, user = self.user_of(api_key)
            rows = self.view.sessions_of(user, everyone=not self.keyed) if allowed else []
            return [
                [
                    row.session_id,
                    row.user or "",
                    row.main,
                    row.side,
                    row.corrections,
                    ", ".join(f"{name} {count}" for name, count in row.kinds.most_common()),
                    time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.last)),
                ]
                for row in rows[:_CHOICES]
            ]

        fresh.click(refresh, key, table)

    def _curves(self, gr: Any) -> None:
        fresh = gr.Button("Refresh", elem_id="refresh-curves")
        plot = gr.Plot(show_label=False, elem_id="curves")

        async def refresh() -> Any:
            await asyncio.to_thread(self.view.poll)
            return await asyncio.to_thread(draw, list(self.view.versions.values()))

        fresh.click(refresh, None, plot)

    def _headline(self) -> str:
        return f"## clawrl · {self.model_name}, version {self.version()}"


def _anew() -> tuple[list[Json], list[Json], list[str | None], str, str]:
    """An empty conversation in a session of its own."""
    return [], [], [], f"ui-{uuid.uuid4().hex}", ""


def _shown(messages: list[Json]) -> list[Json]:
    """As the page may show them: what looks like markup is text."""
    return [{**one, "content": html.escape(one["content"])} for one in messages]


def _title(turn: Turn) -> str:
    reply = " ".join(str(turn.interaction.reply.get("content") or "(calls tools)").split())
    score = turn.verdict.score if turn.verdict is not None else None
    mark = {-1: "-1", 0: "0", 1: "+1", None: "?"}[score]
    return f"[{mark}] v{turn.interaction.weights.version_first}: {reply[:_FIRST_WORDS]}"


def _facts(turn: Turn) -> str:
    lines = [f"reply: {turn.interaction.reply.get('content') or '(calls tools)'}"]
    if turn.feedback is not None:
        lines.append(f"what came back ({turn.feedback.role}): {turn.feedback.content}")
    if turn.verdict is not None:
        votes = ", ".join(
            "abstained" if v.score is None else f"{v.score:+d}" for v in turn.verdict.votes
        )
        score = turn.verdict.score
        lines.append(f"verdict: {'abstained' if score is None else f'{score:+d}'} (votes: {votes})")
        lines.append(f"judge: {turn.verdict.judge}")
        lines.append(f"hint: {turn.verdict.hint or '-'}")
    return "\n".join([*lines, turn.fate])
