"""Commands that sample from a policy without training it: `gnomon eval` and `mismatch`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.commands.words import EnvName, Json, Settings
from gnomon.reading.lines import say
from gnomon.terminal import put

if TYPE_CHECKING:
    from gnomon.run.suite import Result

__all__ = ["evaluate", "mismatch"]


def evaluate(
    what: EnvName,
    settings: Settings = None,
    pins: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of the suite: SHA-256 of the rows; written first, then compared."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a policy on held-out tasks: gnomon eval arithmetic policy=RUN eval.samples=4

    ENV may be `suite`, the benchmarks GSM8K, MATH-500, AIME 24 and 25, GPQA and MBPP, or one of them by its name.
    """
    from gnomon.run.suite import SUITE

    if what == "suite" or what in SUITE:
        return evaluate_suite([what] if what in SUITE else list(SUITE), settings or (), pins, as_json)
    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import layers, with_checkpoints

    config, _ = resolve(with_checkpoints(layers(what, settings)), [check_env_config, check_policy_config])
    from gnomon.run.display import Display, Silent, evaluation_text, loading

    doing = f"{config.eval.tasks} held-out tasks of {config.env.type}"
    with nullcontext(Silent()) if as_json else Display(config, doing=doing) as display:
        with loading(display.phase):
            from gnomon.run.session import measure
        evaluations = measure(config, display.progress, display.phase)
    if as_json:
        main, *others = [(name, each.body()) for name, each in evaluations.items()]
        put(json.dumps(main[1] | ({"sets": dict(others)} if others else {}), indent=1))
        return
    for name, each in evaluations.items():
        if name:
            say(f"\nset {name}")
        say(evaluation_text(each.body()))
        say("verdicts   " + "   ".join(f"{status} {count}" for status, count in each.statuses.items()))


def evaluate_suite(names: Sequence[str], words: Sequence[str], pins: Path | None, as_json: bool) -> None:
    """Evaluate the sets with these names, and print each as it ends."""
    from gnomon.run.suite import pinned_hashes, suite, suite_text, write_pins

    old_pins = pinned_hashes(pins)
    results = suite(words, names, old_pins, print_nothing if as_json else lambda result: say(suite_text([result])))
    if pins:
        write_pins(pins, old_pins, results)
    if as_json:
        put(json.dumps({result.name: result.facts() for result in results}, indent=1))


def print_nothing(result: Result) -> None:
    """With `--json`, the results are printed together."""


def mismatch(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="tiny, a model folder, RUN[:STEP], or OWNER/NAME of the hub.")
    ],
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Compare log-probabilities of sampler and learner, by dtype and engine: gnomon mismatch tiny"""
    from gnomon.config import Source, overrides, resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import with_checkpoints

    supplied = Source({"policy": policy.removeprefix("policy=")}, {"policy": f"the command line: {policy}"})
    sources = with_checkpoints([supplied, overrides(list(settings or []), 2)])
    config, _ = resolve(sources, [check_env_config, check_policy_config])
    from gnomon.run.mismatch import lines, lines_text

    if as_json:
        put(json.dumps([line.body() for line in lines(config, lambda what: None)], indent=1))
        return
    table = list(lines(config, lambda what: put(f"measuring {what}", file=sys.stderr)))
    put(lines_text(table))
