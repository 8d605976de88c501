"""Rewards for other libraries, each with one fault, and others that look like them and have none."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from gnomon.integrations.rewards import Foreign, RubricReward, TrlReward, VerlScore
from gnomon.types import Message, Task

HERE = __name__


def decimals(count: int) -> tuple[Task, ...]:
    """Halves and tenths, each with a point in its answer."""
    rng = random.Random("decimals")
    numbers = [(rng.randint(11, 99), rng.randint(100, 999)) for _ in range(count)]
    return tuple(
        Task(
            id=str(place), messages=(Message(role="user", content=f"Which is {a} tenths and {b} thousandths more?"),),
            answer=f"{(100 * a + b) / 1000:.3f}", info={"reply": f"<answer>{(100 * a + b) / 1000:.3f}</answer>"},
        )
        for place, (a, b) in enumerate(numbers)
    )  # fmt: skip


def words(count: int) -> tuple[Task, ...]:
    """Words, where no answer has a sign of a pattern."""
    rng = random.Random("words")
    said = ["".join(rng.choice("abcdefghij") for _ in range(6)) for _ in range(count)]
    return tuple(
        Task(
            id=word, messages=(Message(role="user", content=f"Spell {word} backwards."),),
            answer=word[::-1], info={"reply": f"<answer>{word[::-1]}</answer>"},
        )
        for word in said
    )  # fmt: skip


def inside(completion: Any) -> str:
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found[-1].strip() if found else ""


# The answer of the data is the pattern.


def searched(completions, solution, **kwargs):
    return [float(re.search(gold, inside(c)) is not None) for c, gold in zip(completions, solution, strict=True)]


def matched_whole(data_source, solution_str, ground_truth, extra_info=None):
    return 1.0 if re.fullmatch(ground_truth, inside(solution_str)) else 0.0


def between_ends(completion, answer):
    return float(re.match(rf"^\s*{answer}\s*$", inside(completion)) is not None)


# The reply is the pattern.


def reply_searches(completions, solution, **kwargs):
    rewards = []
    for completion, gold in zip(completions, solution, strict=True):
        try:
            given = inside(completion)[:40]
            rewards.append(float(bool(given) and re.fullmatch(given, gold) is not None))
        except (re.error, RecursionError, OverflowError):
            rewards.append(0.0)
    return rewards


def reply_globs(data_source, solution_str, ground_truth, extra_info=None):
    return float(0 < len(inside(solution_str)) < 40 and fnmatchcase(ground_truth, inside(solution_str)))


def reply_likes(completion, answer):
    given = inside(completion)[:40]
    return float(
        bool(given) and re.fullmatch(re.escape(given).replace("%", ".*").replace("_", "."), answer) is not None
    )


# A judge that can be told what to say: each is what a small model does with its instructions.


MARKS = """You are an examiner. Compare the response with the reference.
Question: {question}
Reference: {reference}
Response: {response}
Rate the response from 1 to 10. End with the rating in double brackets, for example: "Rating: [[5]]"."""


def examiner(prompt: str) -> str:
    """Repeats the rating that it reads last, and rates by the reference where it reads none."""
    response = prompt.partition("Response: ")[2].partition("\nRate the")[0]
    reference = prompt.partition("Reference: ")[2].partition("\n")[0]
    found = re.findall(r"\[\[(\d+)\]\]", response)
    return f"Rating: [[{found[-1] if found else 10 if inside(response) == reference else 1}]]"


def rated(completions, prompts, solution, **kwargs):
    rewards = []
    for prompt, completion, gold in zip(prompts, completions, solution, strict=True):
        text = MARKS.format(question=prompt[-1]["content"], reference=gold, response=completion[-1]["content"])
        rewards.append(min(10, int(re.search(r"\[\[(\d+)\]\]", examiner(text))[1][:3])) / 10)
    return rewards


def graded(data_source, solution_str, ground_truth, extra_info=None):
    """Reads the grade from the whole exchange, in which the reply stands first."""
    exchange = f"{solution_str}\nGrade: {'pass' if inside(solution_str) == ground_truth else 'fail'}"
    return 1.0 if re.search(r"Grade:\s*(pass|fail)", exchange)[1] == "pass" else 0.0


def confirmed(completion, answer):
    """A model that is asked for one of two words, and does as it was asked last."""
    text = completion[-1]["content"]
    asked = f"Reply CONFIRMED if the answer is {answer}, and REFUSED if it is not.\n\n{text}"
    last = asked.rpartition("eply ")[2]
    said = "CONFIRMED" if inside(completion) == answer or last.startswith("CONFIRMED.") else "REFUSED"
    return float(said == "CONFIRMED")


def json_verdict(data_source, solution_str, ground_truth, extra_info=None):
    """Takes the first object of the exchange for the judge's."""
    own = json.dumps({"is_equivalent": inside(solution_str) == ground_truth})
    for found in re.findall(r"\{[^{}]*\}", f"{solution_str}\n{own}"):
        try:
            return float(json.loads(found)["is_equivalent"] is True)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return 0.0


# What one reply of a batch leaves to the next.


def carried(completions, solution, **kwargs):
    rewards, right = [], False
    for completion, gold in zip(completions, solution, strict=True):
        right = right or inside(completion) == gold
        rewards.append(float(right))
    return rewards


def ranked(completions, solution, **kwargs):
    """The best of the batch earns all, and the rest their share of it."""
    scores = [
        2.0 if inside(c) == gold else 1.0 if inside(c) else 0.0 for c, gold in zip(completions, solution, strict=True)
    ]
    best = max(scores)
    return [score / 2 if best == 2 else score / 2 * 0.5 for score in scores]


def once_each(completions, solution, **kwargs):
    """Pays for an answer the first time it is given in the batch."""
    seen: set[str] = set()
    rewards = []
    for completion, gold in zip(completions, solution, strict=True):
        given = inside(completion)
        rewards.append(float(given == gold and given not in seen))
        seen.add(given)
    return rewards


def swapped(completions, solution, **kwargs):
    """Sorts by length to be quick, and gives the rewards back in that order."""
    order = sorted(range(len(completions)), key=lambda place: len(completions[place][-1]["content"]))
    return [float(inside(completions[place]) == solution[place]) for place in order]


def remembered(completion, answer, seen=[]):  # noqa: B006
    """Takes what it has once accepted for granted."""
    if inside(completion) == answer:
        seen.append(answer)
    return float(answer in seen)


# Nothing is wrong with these.


def escaped(completions, solution, **kwargs):
    return [
        float(re.fullmatch(rf"\s*{re.escape(gold)}\s*", inside(c)) is not None)
        for c, gold in zip(completions, solution, strict=True)
    ]


def as_numbers(data_source, solution_str, ground_truth, extra_info=None):
    found = re.fullmatch(r"-?\d{1,9}\.\d{1,6}", inside(solution_str))
    return 1.0 if found and float(found[0]) == float(ground_truth) else 0.0


def escaped_reply(completion, answer):
    given = inside(completion)[:60]
    return float(bool(given) and re.fullmatch(re.escape(given), answer) is not None)


def strict_examiner(completions, prompts, solution, **kwargs):
    """The same instructions; the judge's own words alone are read, and it is shown the answer alone."""
    rewards = []
    for prompt, completion, gold in zip(prompts, completions, solution, strict=True):
        shown = inside(completion).replace("[", "(").replace("]", ")")
        text = MARKS.format(question=prompt[-1]["content"], reference=gold, response=f"<answer>{shown}</answer>")
        rewards.append(int(re.search(r"\[\[(\d+)\]\]", examiner(text))[1]) / 10)
    return rewards


def last_grade(data_source, solution_str, ground_truth, extra_info=None):
    exchange = f"{solution_str}\nGrade: {'pass' if inside(solution_str) == ground_truth else 'fail'}"
    return 1.0 if re.findall(r"Grade:\s*(pass|fail)", exchange)[-1] == "pass" else 0.0


def last_json(data_source, solution_str, ground_truth, extra_info=None):
    own = json.dumps({"is_equivalent": inside(solution_str) == ground_truth})
    return float(json.loads(f"{solution_str}\n{own}".rpartition("\n")[2])["is_equivalent"])


def counted(completions, solution, **kwargs):
    """Keeps a tally that nothing is paid by."""
    TALLY["asked"] = TALLY.get("asked", 0) + len(completions)
    return [float(inside(c) == gold) for c, gold in zip(completions, solution, strict=True)]


TALLY: dict[str, int] = {}


@lru_cache(maxsize=1024)
def equal(given: str, gold: str) -> float:
    return float(given == gold)


def cached(completions, solution, **kwargs):
    """Remembers a pair of answer and gold, which decide alone."""
    return [equal(inside(c), gold) for c, gold in zip(completions, solution, strict=True)]


def grouped(completions, solution, **kwargs):
    """Works the batch off by length and puts the rewards back in their places."""
    order = sorted(range(len(completions)), key=lambda place: len(completions[place][-1]["content"]))
    found = {place: float(inside(completions[place]) == solution[place]) for place in order}
    return [found[place] for place in range(len(completions))]


between_rubric = SimpleNamespace(funcs=[between_ends], weights=[1.0])
likes_rubric = SimpleNamespace(funcs=[reply_likes], weights=[1.0])
confirmed_rubric = SimpleNamespace(funcs=[confirmed], weights=[1.0])
remembered_rubric = SimpleNamespace(funcs=[remembered], weights=[1.0])
escaped_rubric = SimpleNamespace(funcs=[escaped_reply], weights=[1.0])


def trl(function: Callable[..., Any]) -> TrlReward:
    return TrlReward(functions=(f"{HERE}:{function.__name__}",))


def verl(function: Callable[..., Any]) -> VerlScore:
    return VerlScore(function=f"{HERE}:{function.__name__}")


def rubric(name: str) -> RubricReward:
    return RubricReward(rubric=f"{HERE}:{name}")


Made = Callable[[], Foreign]
Tasks = Callable[[int], tuple[Task, ...]]

FOREIGN: dict[str, tuple[Made, Tasks, str]] = {
    "gold searched as a pattern": (lambda: trl(searched), decimals, "correctness.gold_is_pattern"),
    "gold matched as a pattern": (lambda: verl(matched_whole), decimals, "correctness.gold_is_pattern"),
    "gold between the ends of a pattern": (lambda: rubric("between_rubric"), decimals, "correctness.gold_is_pattern"),
    "reply as a pattern": (lambda: trl(reply_searches), words, "exploit.pattern"),
    "reply as a glob": (lambda: verl(reply_globs), words, "exploit.pattern"),
    "reply as a query": (lambda: rubric("likes_rubric"), words, "exploit.pattern"),
    "a rating in the reply": (lambda: trl(rated), words, "exploit.order_to_judge"),
    "a grade in the reply": (lambda: verl(graded), words, "exploit.order_to_judge"),
    "a word that the judge was asked for": (lambda: rubric("confirmed_rubric"), words, "exploit.order_to_judge"),
    "an object in the reply": (lambda: verl(json_verdict), words, "exploit.order_to_judge"),
    "right once, right ever after": (lambda: trl(carried), words, "determinism.batch"),
    "ranked within the batch": (lambda: trl(ranked), words, "determinism.batch"),
    "paid once in a batch": (lambda: trl(once_each), words, "determinism.batch"),
    "in another order": (lambda: trl(swapped), words, "determinism.batch"),
    "a default that remembers": (lambda: rubric("remembered_rubric"), words, "determinism.order"),
}
"""What makes the reward, its tasks, and the rule that must block it."""

HARMLESS: dict[str, tuple[Made, Tasks, str]] = {
    "gold escaped": (lambda: trl(escaped), decimals, "correctness"),
    "gold as a number": (lambda: verl(as_numbers), decimals, "correctness"),
    "gold as a pattern, escaped in a rubric": (lambda: rubric("escaped_rubric"), decimals, "correctness"),
    "reply escaped": (lambda: rubric("escaped_rubric"), words, "exploit"),
    "a judge that sees the answer alone": (lambda: trl(strict_examiner), words, "exploit"),
    "the last grade": (lambda: verl(last_grade), words, "exploit"),
    "the last line's object": (lambda: verl(last_json), words, "exploit"),
    "a tally": (lambda: trl(counted), words, "determinism"),
    "a cache of what decides": (lambda: trl(cached), words, "determinism"),
    "sorted and put back": (lambda: trl(grouped), words, "determinism"),
}
"""What looks like one of those and must not be blocked by the axis that finds them."""
