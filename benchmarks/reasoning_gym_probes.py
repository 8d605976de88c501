"""What is tried on one data set of reasoning-gym, in the process that `reasoning_gym_audit.py` starts for it.

python benchmarks/reasoning_gym_probes.py NAME all|digest|audit OUT.json
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

ITEMS = 20
SEED = 7
SECONDS = 2.0
"""Of processor time that one score may take."""
AXES = ("correctness", "exploit")
"""Of `gnomon audit`, for scorers that are not refused already; what the other axes ask is asked here in another way."""
MEMORY = 4 * 2**30
"""Bytes of address space of a worker."""
NOTHING = (None, "", " ", "zzz", "I do not know.", "<answer>", "None", "[]", "{}", "0" * 200)
EVERYTHING = ("0, " + ", ".join(map(str, range(1, 2001))), "True or False, yes or no, A, B, C, D or E")
SHAPES = (
    "{0}", "[[{0}]]", "({0})", "1+{0}", "{0}\n", "x*{0}", '{{"a": {0}}}', "f(x)={0}", "ans={0}", "[{0}, {0}]",
)  # fmt: skip
CALLS = ("__import__('os').system('touch {0}')", "__import__('os').mkdir('{0}')")


def names() -> list[str]:
    """Every data set that can be made without naming others."""
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - {"composite"})


def items(name: str, seed: int, count: int) -> list[dict[str, Any]]:
    from reasoning_gym.factory import create_dataset

    data = create_dataset(name, seed=seed, size=count)
    return [data[index] for index in range(count)]


def digest(entries: Iterable[dict[str, Any]]) -> list[str]:
    """One short hash for every item's question and answer."""
    told = (repr((entry["question"], entry["answer"])).encode("utf-8", "surrogatepass") for entry in entries)
    return [blake2b(text, digest_size=8).hexdigest() for text in told]


def task_of(entry: dict[str, Any], place: int) -> Any:
    from gnomon.types import Message, Task

    message = Message(role="user", content=entry["question"])
    return Task(id=str(place), messages=(message,), answer=entry["answer"], info={"metadata": entry["metadata"]})


class Scorer:
    """A data set's own scorer, in a worker that can be killed."""

    def __init__(self, name: str) -> None:
        from gnomon.integrations.rewards import GymScore
        from gnomon.workers import Pool

        verify = GymScore(dataset=name).verify
        self.pool = Pool(verify, workers=1, seconds=SECONDS, memory=MEMORY, output=2**22, retries=0)

    def __call__(self, asked: list[tuple[Any, str | None]]) -> list[float | str]:
        """The score of every (item, answer), or what became of it."""
        from gnomon.workers import Died, Exceeded, Raised

        found: list[float | str] = []
        jobs = [(task, "" if answer is None else f"<answer>{answer}</answer>") for task, answer in asked]
        for outcome in self.pool.map(jobs):
            match outcome:
                case Raised(error):
                    found.append(f"raised {error[:200]}")
                case Exceeded(resource):
                    found.append(f"exceeded {resource}")
                case Died():
                    found.append("died")
                case _:
                    found.append(outcome.value.reward)
        return found


def mean(values: Iterable[float | str]) -> float:
    kept = [value for value in values if isinstance(value, float)]
    return sum(kept) / len(kept) if kept else 0.0


def short(text: str | None) -> str:
    said = {None: "no slot", EVERYTHING[0]: "every number", "0" * 200: "200 zeros", "the question": "the question"}
    return said.get(text) or repr(text)


def lazy(scores: Scorer, entries: list[dict[str, Any]], tasks: list[Any]) -> dict[str, Any]:
    """What replies earn that nobody would call an answer: mean over the items, and how often all of it."""
    table = {}
    for text in (*NOTHING, *EVERYTHING, "the question"):
        asked = [entry["question"] if text == "the question" else text for entry in entries]
        # What stands in the item as its answer is one, however it looks.
        chosen = [(t, a) for t, a, e in zip(tasks, asked, entries, strict=True) if not same(a, e["answer"])]
        found = scores(chosen)
        full = sum(value == 1.0 for value in found) / max(1, len(found))
        table[short(text)] = {"mean": mean(found), "full": full, "broken": first_broken(found)}
    return table


def same(reply: str | None, answer: str | None) -> bool:
    """Whether a reply is the answer after all: its text, or zero for zero."""
    zero = bool(reply) and not (reply or "-").strip("0") and not (answer or "-").strip("0.")
    return reply is not None and (reply == answer or zero)


def first_broken(found: list[float | str]) -> str:
    return next((value for value in found if isinstance(value, str)), "")


def canary(scores: Scorer, tasks: list[Any]) -> list[str]:
    """The answers whose code was run."""
    answers = {f"canary{n}": (call, shape) for n, (call, shape) in enumerate(product(CALLS, SHAPES))}
    texts = {file: shape.format(call.format(file)) for file, (call, shape) in answers.items()}
    scores([(task, text) for text in texts.values() for task in tasks[:3]])
    return [text for file, text in texts.items() if Path(file).exists()]


def try_one(name: str) -> dict[str, Any]:
    """Everything that is tried on one data set."""
    from gnomon.verifiers.hostile import hostile

    began = time.process_time()
    entries = items(name, SEED, ITEMS + 1)
    spent = (time.process_time() - began) / len(entries)
    scores = Scorer(name)
    tasks = [task_of(entry, place) for place, entry in enumerate(entries)]
    known = [(task, entry["answer"]) for task, entry in zip(tasks, entries, strict=True) if entry["answer"] is not None]
    oracle = scores(known)
    pairs = [
        (tasks[i], entries[(i + step) % ITEMS]["answer"])
        for i in range(ITEMS)
        for step in (1, 2)
        if entries[(i + step) % ITEMS]["answer"] not in (None, entries[i]["answer"])
    ]
    stranger = scores(pairs)
    around = scores([(task, f"The answer is {answer}.") for task, answer in known])
    texts = [(form, text) for form, text in ((entry.name, entry.text) for entry in hostile()) if len(text) <= 100_000]
    told = dict(zip([form for form, _ in texts], scores([(tasks[0], text) for _, text in texts]), strict=True))
    ahead = digest(items(name, SEED + 1, ITEMS))
    return {
        "seconds_per_item": spent,
        "oracle": {"known": len(known), "of": len(entries), "mean": mean(oracle), "broken": first_broken(oracle),
                   "refused": sum(value != 1.0 for value in oracle)},
        "lazy": lazy(scores, entries[:ITEMS], tasks[:ITEMS]),
        "stranger": {"pairs": len(pairs), "mean": mean(stranger), "full": sum(v == 1.0 for v in stranger)},
        "around": mean(around),
        "executed": canary(scores, tasks),
        "hostile": {form: value for form, value in told.items() if isinstance(value, str) or value == 1.0},
        "crosses": sum(a == b for a, b in zip(digest(entries[1:]), ahead, strict=True)) / ITEMS,
        "digest": digest(entries),
        "answers": Counter(str(entry["answer"]) for entry in entries).most_common(1)[0][1] / len(entries),
    }  # fmt: skip


def audited(name: str) -> dict[str, Any]:
    """What `gnomon audit` says of a data set's scorer, along the axes of `AXES`."""
    from gnomon.audit import audit, subject_of
    from gnomon.integrations.rewards import GymScore

    report = audit(subject_of(GymScore(dataset=name), count=ITEMS, name=name), axes=AXES)
    return {
        "receipt": report.receipt(),
        "blocking": {finding.rule: finding.what for finding in report.blocking},
        "lazy": report.tables.get("lazy", []),
    }


WHAT = {"all": try_one, "digest": lambda name: digest(items(name, SEED, ITEMS + 1)), "audit": audited}


if __name__ == "__main__":
    name, what, out = sys.argv[1:]
    Path(out).write_text(json.dumps(WHAT[what](name)))
