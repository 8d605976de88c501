"""`gnomon probe`: what a run or a policy shows beside its reward."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import run_folders
from gnomon.commands.words import Json, RunFolder, Settings, Trust
from gnomon.reading.lines import say
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
    """Count replies with words of self-reflection by step, and how many of them are right."""
    from gnomon.store import RunReader
    from gnomon_lab.probes.reflection import WORDS, reflection, reflection_text

    with RunReader(folder) as reader:
        found = reflection(reader, word or WORDS, "held_out" if held_out else "rollout")
    put(json.dumps(found.body(), indent=1)) if as_json else say(reflection_text(found))


@app.command()
def answers(folder: RunFolder, held_out: HeldOut = False, trust: Trust = False, as_json: Json = False) -> None:
    """Count how often a policy corrects its first answer in a reply, and how often it spoils it."""
    from gnomon.store import RunReader
    from gnomon_lab.probes.answers import answers as matrix
    from gnomon_lab.probes.answers import answers_text

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
    from gnomon.comparison.prompts import prompts as measured
    from gnomon.comparison.prompts import prompts_text, wordings
    from gnomon_lab.probes.policies import settings_of

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
    """Measure which of two replies a policy finds likelier to be rewarded; of a run, before and after training."""
    from gnomon_lab.probes.asking import beliefs
    from gnomon_lab.probes.belief import belief_text

    found = beliefs(policy, questions)
    put(json.dumps({name: each.body() for name, each in found}, indent=1)) if as_json else say(belief_text(found))


@app.command()
def change(
    run: Annotated[str, typer.Argument(metavar="RUN[:STEP]", help="A run.", autocompletion=run_folders)],
    as_json: Json = False,
) -> None:
    """Measure how far a checkpoint is from the first policy: KL, likeliest tokens, weights by layer."""
    from gnomon.comparison.change import change as measured
    from gnomon.comparison.change_card import write_card
    from gnomon.run.subject import split_step

    card = measured(run)
    write_card(split_step(run)[0], card)
    put(json.dumps(card.body(), indent=1)) if as_json else say("\n".join(card.sentences))


@app.command()
def budget(folder: RunFolder, as_json: Json = False) -> None:
    """Print tokens, operations and the information in the rewards (bits per episode) of every step of a run."""
    from gnomon.comparison.bits import reward_bits
    from gnomon.plans.flops import step_flops
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        spent, rewards = step_flops(reader), {each.step: each for each in reward_bits(reader)}
    rows = [
        {"step": each.step, "sampled_flops": each.sampled, "trained_flops": each.trained} | asdict(rewards[each.step])
        for each in spent
        if each.step in rewards
    ]
    if as_json:
        put(json.dumps(rows, indent=1))
        return
    say("step  episodes  tokens  bits per episode  sampled FLOPs  trained FLOPs  all FLOPs so far")
    for row, whole in zip(rows, accumulate(row["sampled_flops"] + row["trained_flops"] for row in rows), strict=True):
        say(
            f"{row['step']:>4}  {row['episodes']:>8}  {row['tokens']:>6}  {row['bits']:>9.3f} + {row['bias']:.3f}  "
            f"{row['sampled_flops']:>13.4g}  {row['trained_flops']:>13.4g}  {whole:>16.4g}"
        )
