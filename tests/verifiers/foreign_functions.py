"""Reward functions in the shapes of other libraries, for the tests of their adapters."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace


def said(completion):
    return completion if isinstance(completion, str) else completion[0]["content"]


def exact(prompts, completions, solution, **columns):
    return [float(said(c).strip() == s) for c, s in zip(completions, solution, strict=True)]


def harder(prompts, completions, level, **columns):
    return [0.5 if n > 1 else None for n in level]


async def polite(prompts, completions, **columns):
    await asyncio.sleep(0)
    return [float("please" in said(c)) for c in completions]


def sees(prompts, completions, **columns):
    (prompt,), (completion,) = prompts, completions
    messages = isinstance(prompt, list) and prompt[0]["role"] == "user" and completion[0]["role"] == "assistant"
    return [float(messages or (isinstance(prompt, str) and isinstance(completion, str)))]


def gives(value):
    """A function that answers every completion with one value."""
    return lambda prompts, completions, **columns: value


nan, infinite, nothing, word = gives([math.nan]), gives([math.inf]), gives([None]), gives(["1.0"])
two, alone, huge = gives([1.0, 1.0]), gives(1.0), gives([7.0])


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    right = solution_str == ground_truth
    return {"score": right, "acc": right, "source": data_source, "hints": extra_info.get("hints", 0), "ratio": math.nan}


def plain_score(data_source, solution_str, ground_truth, extra_info=None):
    return 0.25 if solution_str != ground_truth else 1.0


def short_score(solution_str, ground_truth, method="strict"):
    return float(solution_str == ground_truth and method == "strict")


def by_tokens(completions, completion_ids, **columns):
    return [-float(len(ids)) for ids in completion_ids]


def scoreless(data_source, solution_str, ground_truth, extra_info=None):
    return {"acc": 1.0}


def right(completion, answer):
    return completion[-1]["content"] == answer


async def brief(state, parser, **kwargs):
    return float(len(parser(state["completion"])) < 5)


def breaks(completion):
    raise KeyError("reference")


def group(completions, answers):
    return [0.0 for _ in completions]


def parse(completion):
    return completion[-1]["content"]


rubric = SimpleNamespace(funcs=[right, brief], weights=[0.75, 0.25], class_objects={"parser": parse})
broken = SimpleNamespace(funcs=[breaks], weights=[1.0])
grouped = SimpleNamespace(funcs=[group], weights=[1.0])


def make_rubric():
    return rubric
