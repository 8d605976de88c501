"""What a reply that guesses several times earns, by the rule that finds its answer."""

import random
from functools import partial

from gnomon_lab.studies import Claim, Study
from gnomon.types import Task
from gnomon.verifiers import Number, Strictness


def accepted(seed: int, rule: Strictness) -> dict[str, float]:
    """Fraction of 500 replies that are judged correct: one right answer, nine guesses before it, or text after it."""
    draw, number = random.Random(seed), Number(strictness=rule)
    found = dict.fromkeys(("one answer", "guesses first", "right first", "text after"), 0.0)
    for place in range(500):
        task, right = Task(id=str(place), messages=(), answer=place), f"<answer>{place}</answer>"
        guesses = "".join(f"<answer>{draw.randrange(501, 999)}</answer>" for _ in range(9))
        replies = (right, guesses + right, right + guesses, f"{right} I am sure.")
        for name, reply in zip(found, replies, strict=True):
            found[name] += number.verify(task, reply).correct / 500
    return found


study = Study(
    question="Can a reply that lists many answers be correct, unless the rule allows only one?",
    why="Where only the last tag is scored, a policy may write any number before it, and a reply with a wrong answer "
    "counts as right. Where only one is allowed, it earns nothing, and the status of the reply names the reason.",
    arms={rule.value: partial(accepted, rule=rule) for rule in Strictness},
    exact=True,
    claims=[
        *(Claim(measure="guesses first", arm=rule, above=0.999) for rule in ("last", "lenient")),
        Claim(measure="right first", arm="first", above=0.999),
        *(Claim(measure="guesses first", arm=rule, within=1e-12) for rule in ("exact", "trimmed", "only")),
        *(Claim(measure="one answer", arm=rule, above=0.999) for rule in Strictness),
        Claim(measure="text after", arm="only", than="trimmed", above=0.999),
    ],
    prediction={"PASS": 0.95, "FAIL": 0.05, "INCONCLUSIVE": 0.0},
)
