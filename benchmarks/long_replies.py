"""What a step of many long replies costs beside the model: python benchmarks/long_replies.py

Replies of random tokens with their log-probabilities take the way of a run: the message of an engine in another
process is read, they become rollouts, are encoded and written durably to a run folder, are read back, and are packed
into the batch of the learner. Printed are seconds of processor time, and the memory that each part adds.
"""

from __future__ import annotations

import argparse
import pickle
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnomon.plans.devices import resident
from gnomon.rollout import pack
from gnomon.store.codec import decode, encode
from gnomon.store.reader import RunReader
from gnomon.store.writer import Run
from gnomon.types import Completion, Finish, Group, Message, Part, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

PROMPT, VOCABULARY = 200, 151_936


@contextmanager
def part(name: str) -> Iterator[None]:
    """Print what the statements in this context take."""
    before, began = resident(), time.process_time()
    yield
    seconds, gib = time.process_time() - began, (resident() - before) / 2**30
    print(f"{name:44} {seconds:7.2f} s {gib:+7.2f} GiB", flush=True)


def message(rows: int, tokens: int) -> bytes:
    """An answer of an engine in another process: ids and float32 log-probabilities."""
    rng = random.Random(0)
    import numpy as np

    logp = -np.random.default_rng(0).exponential(1.0, (rows, tokens)).astype(np.float32).astype(float)
    return pickle.dumps([([rng.randrange(VOCABULARY) for _ in range(tokens)], row.tolist()) for row in logp])


def groups_of(answers: list[tuple[list[int], list[float]]], group: int) -> list[Group]:
    found = []
    for index in range(len(answers) // group):
        task = Task(id=str(index), messages=(Message(role="user", content="?"),), answer=0)
        prompt = tuple(random.Random(index).randrange(VOCABULARY) for _ in range(PROMPT))
        rollouts = [
            Rollout(
                task=task,
                sample=sample,
                turns=(Turn(prompt_ids=prompt, completion=completion(*answer), messages=task.messages),),
                verdict=Verdict(status=Status.WRONG, parts=(Part(name="correct", value=float(sample % 2)),)),
                stop=Stop.DONE,
            )
            for sample, answer in enumerate(answers[index * group : (index + 1) * group])
        ]
        found.append(Group(index=index, task=task, rollouts=tuple(rollouts)))
    return found


def completion(ids: list[int], logp: list[float]) -> Completion:
    text = "".join(f"{token:04x}"[:4] for token in ids)  # About four characters per token, as in English.
    return Completion(token_ids=tuple(ids), logprobs=tuple(logp), text=text, finish=Finish.EOS, version=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rollouts", 512), ("group", 8), ("tokens", 8192)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    sent = message(given.rollouts, given.tokens)
    print(f"{given.rollouts} replies of {given.tokens} tokens; the engine's message has {len(sent) / 2**20:.0f} MiB")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        with part("read the engine's message"):
            answers = pickle.loads(sent)
        with part("rollouts"):
            groups = groups_of(answers, given.group)
        del answers
        with part("encode"):
            records = [record for one in groups for record in encode(one, kind="rollout", step=0)]
        with part("write"), Run.create(folder, recipe="", manifest={}, genesis={}) as run:
            run.append(records)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{'stored bytes per token':44} {size / given.rollouts / given.tokens:7.2f}")
        del records
        with part("read back"), RunReader(folder) as reader:
            again = list(decode(reader.records()))
        assert [r.turns[0].completion for g in again for r in g.rollouts][:4] == [
            r.turns[0].completion for g in groups for r in g.rollouts
        ][:4]
        with part("pack into a batch"):
            pack(groups, sampling=Sampling(max_tokens=given.tokens), exact=False)


if __name__ == "__main__":
    main()
