"""What `gnomon eval suite` does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gnomon.reading.lines import say
from gnomon.run.suite import Result, pinned, suite, suite_text, write_pins
from gnomon.terminal import put

__all__ = ["evaluate_suite"]


def evaluate_suite(names: Sequence[str], words: Sequence[str], pins: Path | None, as_json: bool) -> None:
    """Evaluate the sets with these names, and print each as it ends."""
    known = pinned(pins)
    results = suite(words, names, known, print_nothing if as_json else lambda result: say(suite_text([result])))
    if pins:
        write_pins(pins, known, results)
    if as_json:
        put(json.dumps({result.name: result.facts() for result in results}, indent=1))


def print_nothing(result: Result) -> None:
    """With `--json`, the results are printed together."""
