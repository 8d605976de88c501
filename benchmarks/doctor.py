"""Ten runs that are broken on purpose and ten sound ones: which cause does `gnomon doctor` name first?

    python benchmarks/doctor.py runs/doctor

Every run is a run folder of its own, `FOLDER/NAME`; finished ones are kept. Prints, and writes to `FOLDER/table.md`,
the first cause of each run and the others that are named. Exits 1 unless the cause of at least nine broken runs is
named first and nothing is named on the sound ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import broken

import gnomon
from gnomon.errors import GnomonError
from gnomon.store import RunReader

HERE = Path(__file__).parent
EVERY = ["correctness", "exploit", "availability", "sentinels", "failure", "reward.weights"]
"""Axes and rules of the audit before a run, all of whose findings are accepted; it refuses most of these runs."""
COMMON: dict[str, Any] = {
    "threads": 1,
    "steps": 24,
    "rollout": {"prompts": 8, "group": 8, "max_tokens": 64},
    "eval": {"every": 12, "tasks": 64},
    "audit": {"acknowledge": EVERY},
}
Made = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run and what the doctor should name first."""

    name: str
    env: str = "char_count"
    expected: str = ""
    """Name of the finding; empty for a sound run."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    made: Callable[[Path], Made] = lambda folder: {}
    """More settings, which need a folder, or Python objects."""


def own(name: str) -> str:
    return f"{HERE / 'broken_verifiers.py'}:{name}"


def leaked(folder: Path) -> Made:
    train, test = broken.leaked_rows(folder / "rows")
    return {"env": {"type": "dataset", "path": str(train), "test": str(test)}}


BROKEN = [
    Case(name="learning rate x 100", expected="update.too_large", settings={"lr": 0.1}),
    Case(
        name="wrong template",
        expected="rollout.template",
        made=lambda folder: {"policy": {"path": str(broken.chatml_model(folder / "chatml")), "renderer": "chatml"}},
    ),
    Case(name="max_tokens 4", env="countdown", expected="rollout.truncated", settings={"rollout": {"max_tokens": 4}}),
    Case(name="reward always 1", env=own("AlwaysRight"), expected="judge.constant"),
    Case(
        name="verifier fails a third",
        env=own("Failing"),
        expected="judge.fails",
        settings={"rollout": {"prompts": 16, "group": 4}, "workers": {"failures": 1.0, "retries": 0}},
    ),
    Case(name="swapped sign", expected="advantage.sign", made=lambda folder: {"objective": broken.swapped()}),
    Case(
        name="stale weights",
        expected="update.stale",
        made=lambda folder: {"engine": broken.Stale(gnomon.loop.Policy.load("tiny"))},
    ),
    Case(
        name="one-sided groups",
        env="arithmetic",
        expected="data.too_hard",
        settings={"env": {"terms": 4, "largest": 999, "signs": "*"}},
    ),
    Case(name="leak of train into test", env="dataset", expected="data.leak", made=leaked),
    Case(
        name="hackable reward",
        env=f"{HERE / 'gameable.py'}:Steps",
        expected="judge.paid_elsewhere",
        settings={"rollout": {"max_tokens": 24}, "steps": 40},
    ),
]
SOUND = [
    Case(name="char_count dr_grpo"),
    Case(name="char_count rloo", settings={"seed": 1, "objective": "rloo"}),
    Case(name="char_count grpo", settings={"seed": 2, "objective": "grpo", "optim": {"minibatches": 2}}),
    Case(name="char_count maxrl", settings={"seed": 3, "objective": "maxrl", "env": {"format": 0.0}}),
    Case(name="char_count dapo", settings={"seed": 4, "objective": "dapo", "optim": {"epochs": 2}}),
    Case(name="arithmetic dr_grpo", env="arithmetic", settings={"seed": 5}),
    Case(name="arithmetic ppo", env="arithmetic", settings={"seed": 6, "objective": "ppo"}),
    Case(name="scramble dr_grpo", env="scramble", settings={"seed": 7}),
    Case(name="countdown dr_grpo", env="countdown", settings={"seed": 8, "rollout": {"max_tokens": 128}}),
    Case(
        name="countdown gspo",
        env="countdown",
        settings={"seed": 9, "objective": "gspo", "rollout": {"max_tokens": 128}},
    ),
]


def settings_of(case: Case, folder: Path) -> dict[str, Any]:
    """The common settings with those of the case; tables are merged."""
    found = dict(COMMON)
    for layer in (case.settings, case.made(folder)):
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
            found[key] = {**found[key], **value} if both else value
    return found


def trained(case: Case, folder: Path) -> Path:
    """The run of a case, trained now unless it is there. A run that fails is one for the doctor too."""
    run = folder / case.name.replace(" ", "-")
    if not (run / "journal.db").exists():
        try:
            gnomon.train(case.env, run=run, quiet=True, **settings_of(case, folder)).close()
        except GnomonError as error:
            if not (run / "journal.db").exists():
                raise
            print(f"{case.name}: {error.what}", file=sys.stderr)
    return run


def row(case: Case, run: Path) -> tuple[str, bool]:
    """The line of the table, and whether the doctor named the right cause first."""
    from gnomon.doctor.run import examine

    with RunReader(run) as reader:
        found = examine(reader, trust=True).findings
        rates = [body["pass_at"]["1"]["value"] for body in (reader.baseline, reader.held_out) if body]
        steps = reader.steps
    first = found[0].name if found else ""
    more = ", ".join(finding.name for finding in found[1:]) or "none"
    held_out = " to ".join(f"{rate:.2f}" for rate in rates)
    return f"| {case.name} | {steps} | {held_out} | {first or 'nothing'} | {more} |", first == case.expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of runs")
    parser.add_argument("--train", action="store_true", help="train without examining")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lines, right = [], {"broken": 0, "sound": 0}
    for kind, cases in (("broken", BROKEN), ("sound", SOUND)):
        lines += ["", f"| {kind} run | steps | held-out pass@1 | named first | named too |", "|---|---|---|---|---|"]
        for case in cases:
            if options.only and case.name not in options.only:
                continue
            run = trained(case, options.folder)
            if options.train:
                print(case.name, flush=True)
                continue
            line, good = row(case, run)
            lines.append(line)
            right[kind] += good
            print(line if good else f"{line} expected {case.expected or 'nothing'}", flush=True)
    if options.only or options.train:
        return 0
    lines += [
        "",
        f"Cause named first: {right['broken']} of 10 broken runs. Nothing named: {right['sound']} of 10 sound.",
    ]
    print(lines[-1])
    (options.folder / "table.md").write_text("\n".join(lines[1:]) + "\n")
    return 0 if right["broken"] >= 9 and right["sound"] == 10 else 1


if __name__ == "__main__":
    sys.exit(main())
