"""Answers beside golds: how often the verifier `Math` and math-verify agree with a reader, and what a verdict costs.

    python benchmarks/mathematics.py [FILE.jsonl …] [--mistakes]

A line of a file is one pair: `answer`, `gold`, whether a reader says that it is `right`, its `kind` (ordinary or
adversarial) and `why` it is there. A verdict that fails or takes over five seconds is a refusal.
Without files: those that ship with the tests. `pairs_developed.jsonl` was looked at while the verifier was written; the
others were written before it was run on them, and looked at afterwards.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnomon.types import Task
from gnomon.verifiers import Math
from gnomon.workers import Pool, Returned

CASES = Path(__file__).parents[1] / "tests" / "verifiers" / "cases"
SECONDS = 5.0


def ours(pair: dict[str, Any]) -> tuple[bool, float]:
    task = Task(id="pair", messages=(), answer=pair["gold"])
    began = time.perf_counter()
    verdict = Math(form=pair.get("form", "reduced")).verify(task, f"<answer>{pair['answer']}</answer>")
    return verdict.correct, time.perf_counter() - began


def math_verify(pair: dict[str, Any]) -> tuple[bool, float]:
    from math_verify import parse, verify  # type: ignore[import-not-found, import-untyped, unused-ignore]

    began = time.perf_counter()
    gold = parse(f"\\boxed{{{pair['gold']}}}", parsing_timeout=None)
    said = parse(f"\\boxed{{{pair['answer']}}}", parsing_timeout=None)
    return bool(verify(gold, said, timeout_seconds=None)), time.perf_counter() - began


def judged(
    judge: Callable[[dict[str, Any]], tuple[bool, float]], pairs: list[dict[str, Any]]
) -> tuple[list[bool], float]:
    """Whether each pair is accepted, and the seconds of the median verdict."""
    with Pool(judge, workers=2, seconds=SECONDS) as pool:
        list(pool.map([(pair,) for pair in pairs[:20]]))  # First calls are slow and are not what is measured.
        outcomes = list(pool.map([(pair,) for pair in pairs]))
    found = [outcome.value if isinstance(outcome, Returned) else (False, SECONDS) for outcome in outcomes]
    return [accepted for accepted, _ in found], sorted(seconds for _, seconds in found)[len(found) // 2]


def main() -> None:
    files = [Path(name) for name in sys.argv[1:] if not name.startswith("-")]
    files = files or sorted(CASES.glob("pairs_*.jsonl"))
    print("| file | kind | verifier | right | false accepts | false refusals | median |\n|---|---|---|---|---|---|---|")
    mistakes = list[str]()
    for file in files:
        rows = [json.loads(line) for line in file.read_text("utf-8").split("\n")[:-1]]
        for kind in sorted({row["kind"] for row in rows}, reverse=True):
            pairs = [row for row in rows if row["kind"] == kind]
            for name, judge in (("Math", ours), ("math-verify", math_verify)):
                accepted, seconds = judged(judge, pairs)
                wrong = [(pair, said) for pair, said in zip(pairs, accepted, strict=True) if said != pair["right"]]
                loose = sum(said for _, said in wrong)
                share = f"{len(pairs) - len(wrong)} of {len(pairs)} ({1 - len(wrong) / len(pairs):.1%})"
                cost = f"{seconds * 1000:.2f} ms"
                print(f"| {file.stem} | {kind} | {name} | {share} | {loose} | {len(wrong) - loose} | {cost} |")
                mistakes += [
                    f"{name} {'accepts' if said else 'refuses'} {pair['answer']!r} for {pair['gold']!r} ({pair['why']})"
                    for pair, said in wrong
                ]
    if "--mistakes" in sys.argv:
        print("\n".join(mistakes))


if __name__ == "__main__":
    import mathematics  # Workers cannot import what stands in the script that runs.

    mathematics.main()
