"""`gnomon eval suite`: published benchmarks, each an evaluation of its own with its length, temperature and samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.envs.dataset import Dataset
from gnomon.envs.rows import content_hash
from gnomon.errors import ConfigError, GnomonError
from gnomon.models.facts import facts
from gnomon.run.find import check_env_config, check_policy_config, make_env
from gnomon.run.subject import with_checkpoints
from gnomon.stats import Interval

__all__ = ["SUITE", "Result", "pinned_hashes", "suite", "suite_text", "write_pins"]

MATH = {"type": "dataset", "prompt": "problem", "verifier": "math"}
OPTIONS = ",".join(["Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3))])
SUITE: Mapping[str, dict[str, Any]] = {
    "gsm8k": {
        "env": {
            **MATH, "path": "openai/gsm8k", "config": "main", "test": "test", "prompt": "question", "after": "####",
        },
        "rollout": {"max_tokens": 1024, "temperature": 0.6}, "eval": {"tasks": 1319, "samples": 1},
    },
    "math500": {
        "env": {**MATH, "path": "HuggingFaceH4/MATH-500", "train": "test", "test": "*"},
        "rollout": {"max_tokens": 4096, "temperature": 0.6}, "eval": {"tasks": 500, "samples": 4},
    },
    "aime24": {
        "env": {**MATH, "path": "HuggingFaceH4/aime_2024", "test": "*"},
        "rollout": {"max_tokens": 16384, "temperature": 0.6}, "eval": {"tasks": 30, "samples": 16},
    },
    "aime25": {
        "env": {**MATH, "path": "math-ai/aime25", "train": "test", "test": "*"},
        "rollout": {"max_tokens": 16384, "temperature": 0.6}, "eval": {"tasks": 30, "samples": 16},
    },
    "gpqa": {
        "env": {
            "type": "gnomon.envs.choice_rows:ChoiceRows", "path": "Idavidrein/gpqa", "config": "gpqa_diamond",
            "test": "*", "prompt": "Question", "answer": "Correct Answer", "choices": OPTIONS, "gold_is": "text",
        },
        "rollout": {"max_tokens": 4096, "temperature": 0.6}, "eval": {"tasks": 198, "samples": 4},
    },
    "mbpp": {
        "env": {
            "type": "gnomon.envs.code_rows:CodeRows", "path": "google-research-datasets/mbpp", "config": "full",
            "test": "test", "prompt": "text", "answer": "test_list", "solved": "code",
        },
        "rollout": {"max_tokens": 1024, "temperature": 0.2, "stop": ["\n```\n"]}, "eval": {"tasks": 500, "samples": 1},
    },
}  # fmt: skip
"""Settings of each set: data, longest reply, temperature, number of tasks, and replies to each."""
PROMPT = 1024
"""Tokens that are left for a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A set of the suite, measured or not."""

    name: str
    body: Mapping[str, Any]
    """Of the evaluation; empty if the set was not measured."""
    settings: Mapping[str, Any]
    """Longest reply, temperature, tasks and samples."""
    sha256: str
    """Of the held-out rows."""
    error: GnomonError | None = None
    """Why the set was not measured."""

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        if self.error:
            return {"error": str(self.error)}
        return {**self.body, **self.settings, "sha256": self.sha256}


def suite(
    words: Sequence[str], names: Sequence[str], pins: Mapping[str, str], tell: Callable[[Result], None]
) -> list[Result]:  # fmt: skip
    """Evaluate a policy on these sets, one after the other. A set that cannot be measured is left out.

    Args: words: settings of the command line, for every set; pins: SHA-256 of the rows, by set; tell: called with each
        result.
    Raises: what is wrong with the settings or the policy; the error of the last set if none was measured.
    """
    supplied = with_checkpoints([overrides(list(words), 2)])
    policy, _ = resolve(supplied, [check_policy_config])
    positions = facts(policy.policy.path).positions or policy.rollout.context
    results = []
    for name in names:
        results.append(one(name, [*layers_of(name, positions), *supplied], pins.get(name, "")))
        tell(results[-1])
    errors = [result.error for result in results if result.error]
    if len(errors) == len(results):
        raise errors[-1]
    return results


def layers_of(name: str, positions: int) -> list[Source]:
    """The settings of a set. A reply takes at most half of the model's positions."""
    longest = min(SUITE[name]["rollout"]["max_tokens"], positions // 2)
    sized = {"rollout": {"max_tokens": longest, "context": min(positions, longest + PROMPT)}}
    return [Source(SUITE[name], {}), Source(sized, {})]


def one(name: str, layers: Sequence[Source], pin: str) -> Result:
    """One set."""
    from gnomon.run.session import measure  # It imports torch.

    try:
        config, _ = resolve(layers, [check_env_config, check_policy_config])
        rollout, held_out = config.rollout, config.eval
        settings = {
            "max_tokens": rollout.max_tokens, "temperature": rollout.temperature,
            "tasks": held_out.tasks, "samples": held_out.samples,
        }  # fmt: skip
        rows = rows_hash(name, config, pin)
        return Result(name=name, body=measure(config)[""].body(), settings=settings, sha256=rows)
    except GnomonError as error:
        return Result(name=name, body={}, settings={}, sha256="", error=error)


def rows_hash(name: str, config: RunConfig, pin: str) -> str:
    """SHA-256 of the held-out rows. Raises: ConfigError E164 for other rows than those of the pin."""
    env = make_env(config.env)
    assert isinstance(env, Dataset)
    sha256 = content_hash(env.rows_of(env.test if env.apart else env.train))
    if pin and sha256 != pin:
        raise ConfigError(
            "E164", f"the held-out rows of {name} are not those of the file of pins", where=env.path,
            why=f"their SHA-256 is {sha256}, and the file has {pin}",
            fix=f"gnomon eval {name} env.revision=COMMIT, with the commit that had these rows",
        )  # fmt: skip
    return sha256


def pinned_hashes(path: Path | None) -> dict[str, str]:
    """The SHA-256 of the rows of each set in a file; empty for no file. Raises: ConfigError E164."""
    if path is None or not path.exists():
        return {}
    with suppress(OSError, ValueError):
        pins = json.loads(path.read_text("utf-8"))
        if isinstance(pins, dict) and all(isinstance(value, str) for value in pins.values()):
            return pins
    raise ConfigError("E164", "the file of pins cannot be read", where=str(path), fix=f"rm {path}")


def write_pins(path: Path, pins: Mapping[str, str], results: Sequence[Result]) -> None:
    """Add the rows of sets that were not pinned before."""
    hashes = {result.name: result.sha256 for result in results if result.sha256}
    path.write_text(json.dumps({**hashes, **pins}, indent=1) + "\n", "utf-8")


def suite_text(results: Sequence[Result]) -> str:
    """A line for each set."""
    lines = []
    for each in results:
        if each.error:
            lines.append(f"{each.name:<8} not measured: {each.error}")
            continue
        of, rate = each.settings, Interval(**each.body["pass_at"]["1"])
        lines.append(
            f"{each.name:<8} pass@1 {rate}   {rate.n} tasks x {of['samples']}, temperature {of['temperature']:g}, "
            f"up to {of['max_tokens']} tokens, truncated {each.body['truncated']:.0%}   rows {each.sha256[:12]}"
        )
    return "\n".join(lines)
