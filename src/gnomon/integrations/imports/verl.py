"""Dumps of verl 0.9: `{step}.jsonl` below `trainer.rollout_data_dir` or `trainer.validation_data_dir`.

A line has `input`, `output`, `gts`, `score`, `step`, and the numbers that the reward function returned. The dump lacks
token ids, log-probabilities and advantages; special tokens are left out of its texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gnomon.integrations.imports.files import Options, Row, files, json_rows, optional, others, require
from gnomon.integrations.imports.rollout import Foreign, messages_of, number, parts_of, single_turn, task_of

__all__ = ["read"]

KNOWN = ("input", "output", "gts", "score", "step", "uid", "request_id")


def read(source: Path, options: Options) -> Iterator[Foreign]:
    """The rollouts of a folder of dumps, or of one file."""
    for path in files(source, "*.jsonl"):
        for address, row in json_rows(path, options):
            yield rollout(row, address, options)


def rollout(row: Row, address: str, options: Options) -> Foreign:
    prompt = messages_of(require(row, "prompt", options, address, "input"), "user")
    score = number(require(row, "reward", options, address, "score"))
    beside = {name: value for name, each in others(row, KNOWN).items() if (value := number(each)) is not None}
    return Foreign(
        task=task_of(prompt, optional(row, "answer", options, "gts", where=address)),
        turns=single_turn(prompt, str(require(row, "reply", options, address, "output"))),
        source=address,
        step=int(require(row, "step", options, address)),
        held_out=options.held_out,
        reward=score,
        parts=parts_of([("score", score)], {}) + parts_of(beside.items(), dict.fromkeys(beside, 0.0)),
        values={"score": score, **beside},
    )
