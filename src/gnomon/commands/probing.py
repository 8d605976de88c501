"""`gnomon probe`: what a run or a policy shows beside its reward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import run_folders
from gnomon.commands.words import Json, RunFolder, Settings, Trust
from gnomon.launch.lines import say
from gnomon.terminal import put

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None,
    help="Measure what a run or a policy shows beside its reward: gnomon probe answers RUN",
)  # fmt: skip
HeldOut = Annotated[bool, typer.Option("--held-out", help="Read the held-out rollouts, not those of training.")]
Asked = Annotated[
    str,
    typer.Argument(metavar="POLICY|RUN[:STEP]", help="tiny, a model folder, or a run.", autocompletion=run_folders),
]


@app.command()
def words(
    folder: RunFolder,
    word: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word to search for instead of the list; repeatable.")
    ] = None,
    held_out: HeldOut = False,
    as_json: Json = False,
) -> None:
    """Share of replies with words of self-reflection, and how often these are right, by step."""
    from gnomon.probes.reflection import WORDS, reflection, reflection_text
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        found = reflection(reader, word or WORDS, "held_out" if held_out else "rollout")
    put(json.dumps(found.body(), indent=1)) if as_json else say(reflection_text(found))


@app.command()
def answers(folder: RunFolder, held_out: HeldOut = False, trust: Trust = False, as_json: Json = False) -> None:
    """Is the first answer of a reply right, and the last: how often a policy corrects or spoils an answer."""
    from gnomon.probes.answers import answers as matrix
    from gnomon.probes.answers import answers_text
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        found = matrix(reader, "held_out" if held_out else "rollout", trust=trust)
    put(json.dumps(found.body(), indent=1)) if as_json else say(answers_text(found))


@app.command()
def prompts(
    policy: Asked,
    settings: Settings = None,
    template: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A value of env.template, with {prompt}; repeatable. Default: three."),
    ] = None,
    as_json: Json = False,
) -> None:
    """pass@1 on the same held-out tasks under several prompts: gnomon probe prompts tiny env=countdown"""
    from gnomon.probes.policies import settings_of
    from gnomon.probes.prompts import prompts as measured
    from gnomon.probes.prompts import prompts_text, wordings

    found = measured(settings_of(policy, settings or ()), wordings(template or ()))
    put(json.dumps(found.body(), indent=1)) if as_json else say(prompts_text(found))


@app.command()
def belief(
    policy: Asked,
    questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Questions with options; default: about pairs of replies of the run."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Which of two replies a policy takes as rewarded, by log-probability; of a run, before and after training."""
    from gnomon.probes.asking import beliefs
    from gnomon.probes.belief import belief_text

    found = beliefs(policy, questions)
    put(json.dumps({name: each.body() for name, each in found}, indent=1)) if as_json else say(belief_text(found))
