"""Stock clients as they are installed, each pointed at a gateway by its own configuration."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import openai

from clawrl.connect.change import plan
from clawrl.connect.clients import CLIENTS as CONNECTED
from clawrl.connect.clients import Endpoint
from tests.clients.terminal import Terminal

ROOT = Path(__file__).parents[2]
PYPI = ROOT / ".venv" / "clients" / "bin"
NPM = ROOT / ".clients" / "node_modules"
LIMIT_S = 600
CONTEXT_TOKENS = 8192


class Conversation(Protocol):
    """What a person does with a client: says something, and reads the answer."""

    async def say(self, text: str) -> str:
        """The client's answer."""
        ...

    async def close(self) -> None:
        """Leave the client."""
        ...


class Client:
    """One stock client; `program` is its executable."""

    name: ClassVar[str]
    program: ClassVar[Path | None] = None
    only_calls: ClassVar[bool] = False

    def missing(self) -> str | None:
        """Why it cannot be run here."""
        if self.program is None or self.program.exists():
            return None
        return f"{self.name} is not installed: make clients"

    async def version(self, home: Path) -> str:
        """As the client itself says it."""
        raise NotImplementedError

    def open(self, base_url: str, home: Path) -> Conversation:
        """A new conversation; `home` is the client's own empty folder."""
        raise NotImplementedError

    def errand(self, body: dict[str, Any]) -> str | None:
        """What a request of its own housekeeping is for; None: the agent's work."""
        return None


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A bare environment, so that no setting of this machine's reaches the client."""
    return {
        "HOME": str(home),
        "PATH": f"{NPM / 'node' / 'bin'}:{os.environ['PATH']}",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        **(extra or {}),
    }


async def run(
    program: Path, *arguments: str, home: Path, extra: Mapping[str, str] | None = None
) -> str:
    """What a program says on stdout. Raises AssertionError with its words when it fails."""
    os.makedirs(home, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        cwd=home,
        env=environment(home, extra),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    words = f"{out.decode()}\n{err.decode()}"
    assert process.returncode == 0, f"{program.name} {' '.join(arguments)}:\n{words[-4000:]}"
    return out.decode()


class OpenAI(Client):
    """The official Python client in a loop of ten lines, as thousands of programs have it."""

    name = "openai-python"

    async def version(self, home: Path) -> str:
        return openai.__version__

    def open(self, base_url: str, home: Path) -> Conversation:
        return _OpenAIConversation(base_url)


class _OpenAIConversation:
    def __init__(self, base_url: str) -> None:
        self._client = openai.AsyncOpenAI(base_url=base_url, api_key="none", timeout=LIMIT_S)
        self._history: list[Any] = []

    async def say(self, text: str) -> str:
        self._history.append({"role": "user", "content": text})
        stream = await self._client.chat.completions.create(
            model="policy", messages=self._history, stream=True, max_tokens=64
        )
        answer = ""
        async for chunk in stream:
            if chunk.choices:
                answer += chunk.choices[0].delta.content or ""
        self._history.append({"role": "assistant", "content": answer})
        return answer

    async def close(self) -> None:
        await self._client.close()


class Llm(Client):
    """`llm`, with a model of its extra-openai-models.yaml."""

    name = "llm"
    program = PYPI / "llm"

    async def version(self, home: Path) -> str:
        said = await run(self.program, "--version", home=home)
        return said.split()[-1]

    def open(self, base_url: str, home: Path) -> Conversation:
        return _LlmConversation(base_url, home)


class _LlmConversation:
    def __init__(self, base_url: str, home: Path) -> None:
        self._home = home
        self._begun = False
        home.mkdir(parents=True, exist_ok=True)
        (home / "extra-openai-models.yaml").write_text(
            f"- model_id: policy\n  model_name: policy\n  api_base: {base_url}\n  api_key_name: c\n"
        )
        (home / "keys.json").write_text('{"c": "none"}')

    async def say(self, text: str) -> str:
        more = ("-c",) if self._begun else ()
        self._begun = True
        arguments = (*more, "-m", "policy", "-o", "max_tokens", "64", text)
        where = {"LLM_USER_PATH": str(self._home)}
        return (await run(Llm.program, *arguments, home=self._home, extra=where)).strip()

    async def close(self) -> None: ...


class MiniSweAgent(Client):
    """`mini` in a terminal, asking before each command, as it does by default."""

    name = "mini-swe-agent"
    program = PYPI / "mini"
    only_calls = True

    async def version(self, home: Path) -> str:
        python = self.program.with_name("python")
        code = "from importlib.metadata import version; print(version('mini-swe-agent'))"
        return (await run(python, "-c", code, home=home)).strip()

    def open(self, base_url: str, home: Path) -> Conversation:
        return _MiniConversation(base_url, home)


class _MiniConversation:
    _ASKS = "to show available commands"
    _ENDS = "to quit (/h for commands)"

    def __init__(self, base_url: str, home: Path) -> None:
        self._home = home
        self._terminal = Terminal()
        self._begun = False
        self._environment = environment(
            home,
            {
                "OPENAI_API_BASE": base_url,
                "OPENAI_API_KEY": "none",
                "MSWEA_CONFIGURED": "true",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "MSWEA_GLOBAL_CONFIG_DIR": str(home),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "PROMPT_TOOLKIT_NO_CPR": "1",
            },
        )
        home.mkdir(parents=True, exist_ok=True)

    async def say(self, text: str) -> str:
        """The task, then a word on the command it wants to run; from there on all are allowed."""
        if not self._begun:
            self._begun = True
            command = (MiniSweAgent.program, "-m", "openai/policy", "-t", text)
            await self._terminal.start(*command, cwd=self._home, env=self._environment)
            return (await self._terminal.until(self._ASKS, limit_s=LIMIT_S))[1]
        await self._terminal.type(text)
        said = ""
        while True:
            question, words = await self._terminal.until(self._ASKS, self._ENDS, limit_s=LIMIT_S)
            said += words
            if question == self._ENDS:
                return said
            await self._terminal.type("")

    async def close(self) -> None:
        await self._terminal.type("")
        await self._terminal.close()


def connect(name: str, base_url: str, home: Path, *, max_tokens: int = 128) -> Path:
    """What `clawrl connect NAME` writes; the path of the file."""
    to = Endpoint(base_url, "policy", "none", CONTEXT_TOKENS, max_tokens)
    change = plan(CONNECTED[name], to, home)
    change.write()
    return home / CONNECTED[name].path


class Codex(Client):
    """`codex exec`, then `codex exec resume`."""

    name = "codex"
    program = NPM / ".bin" / "codex"

    async def version(self, home: Path) -> str:
        return (await run(self.program, "--version", home=home)).split()[-1]

    def open(self, base_url: str, home: Path) -> Conversation:
        connect("codex", base_url, home)
        return _CodexConversation(home)


class _CodexConversation:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._thread = ""

    async def say(self, text: str) -> str:
        again = ("resume",) if self._thread else ()
        thread = (self._thread,) if self._thread else ()
        # The sandbox is off: it needs rights that a container does not have.
        options = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        said = await run(Codex.program, "exec", *again, *options, *thread, text, home=self._home)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        started = [event for event in events if event["type"] == "thread.started"]
        self._thread = started[-1]["thread_id"] if started else self._thread
        answers = [event["item"] for event in events if event["type"] == "item.completed"]
        return "\n".join(one["text"] for one in answers if one["type"] == "agent_message")

    async def close(self) -> None: ...


class OpenCode(Client):
    """`opencode run`, then `opencode run --continue`."""

    name = "opencode"
    program = NPM / ".bin" / "opencode"
    _QUIET: ClassVar = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}

    async def version(self, home: Path) -> str:
        return (await run(self.program, "--version", home=home)).strip()

    def open(self, base_url: str, home: Path) -> Conversation:
        connect("opencode", base_url, home)
        return _OpenCodeConversation(home, self._QUIET)

    def errand(self, body: dict[str, Any]) -> str | None:
        return "title" if "You are a title generator" in str(body["messages"][0]) else None


class _OpenCodeConversation:
    def __init__(self, home: Path, extra: dict[str, str]) -> None:
        self._home = home
        self._extra = extra
        self._begun = False

    async def say(self, text: str) -> str:
        more = ("--continue",) if self._begun else ()
        self._begun = True
        said = await run(
            OpenCode.program, "run", "--auto", *more, text, home=self._home, extra=self._extra
        )
        return said.strip()

    async def close(self) -> None: ...


class OpenClaw(Client):
    """`openclaw agent --local`, in the lean configuration for small models."""

    name = "openclaw"
    program = NPM / ".bin" / "openclaw"

    async def version(self, home: Path) -> str:
        return (await run(self.program, "--version", home=home)).split()[1]

    def open(self, base_url: str, home: Path) -> Conversation:
        path = connect("openclaw", base_url, home)
        config = json.loads(path.read_text())
        config["agents"]["defaults"] |= {
            "skipBootstrap": True,
            "skills": [],
            "experimental": {"localModelLean": True},
        }
        config["tools"] = {"allow": ["read", "write", "edit", "exec"]}
        path.write_text(json.dumps(config))
        return _OpenClawConversation(home)


class _OpenClawConversation:
    def __init__(self, home: Path) -> None:
        self._home = home

    async def say(self, text: str) -> str:
        arguments = ("agent", "--local", "--agent", "main", "-m", text)
        return (await run(OpenClaw.program, *arguments, home=self._home)).strip()

    async def close(self) -> None: ...


CLIENTS: list[Client] = [OpenAI(), Llm(), MiniSweAgent(), Codex(), OpenCode(), OpenClaw()]
