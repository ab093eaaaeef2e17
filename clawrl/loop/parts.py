"""Parts that several commands build alike from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clawrl.collect.collector import Collector
from clawrl.collect.problems import training_problems
from clawrl.config.build import build
from clawrl.config.schema import Config
from clawrl.protocols import Persona
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Interaction, Sample, Verdict
from clawrl.samples.assemble import assemble
from clawrl.samples.render import PromptRenderer

_SEEDS_APART = 1_000_003


def assembler(config: Config, model_path: Path) -> Callable[[Interaction, Verdict], Sample]:
    """What turns a verdict into a sample under this configuration."""
    renderer = PromptRenderer(model_path)

    def one(interaction: Interaction, verdict: Verdict) -> Sample:
        return assemble(
            interaction,
            verdict,
            objective=config.objective,
            renderer=renderer,
            context_tokens=config.model.context_tokens,
        )

    return one


def build_collector(
    config: Config,
    folder: RunFolder,
    base_url: str,
    *,
    give_up: Callable[[str], None],
    trusted: bool,
) -> Collector:
    """The persona's sessions. A resumed run goes on with other sessions than it began with."""
    begun = sum(1 for _ in folder.interactions.read())
    return Collector(
        persona=build(config.persona, Persona, key="persona", trusted=trusted),
        problems=training_problems(
            config.data.model_copy(update={"seed": config.data.seed + begun})
        ),
        base_url=f"{base_url}/v1",
        api_key=config.gateway.api_key or "local",
        model_name="policy",
        sampling=config.sampling,
        max_turns=config.max_turns,
        concurrent_sessions=config.loop.concurrent_sessions,
        give_up=give_up,
        seed=config.seed * _SEEDS_APART + begun,
    )
