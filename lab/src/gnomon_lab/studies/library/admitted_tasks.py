"""Whether `gnomon check` rejects broken environments and admits sound ones."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

from gnomon.envs import Arithmetic, CharCount, Countdown
from gnomon.envs.check import check_env
from gnomon_lab.studies import Claim, Study

SOUND = [
    *(CharCount(length=(low, low + 4), most=most) for low, most in product((3, 5, 7), (2, 3))), CharCount(shots=2),
    *(Arithmetic(terms=count, largest=largest) for count, largest in product((2, 3, 4), (20, 90))), Arithmetic(seed=5),
    *(Countdown(numbers=(count,), largest=largest) for count, largest in product((2, 3, 4), (10, 20))),
]  # fmt: skip
WRONG: dict[str, tuple[str, Any]] = {
    "Anything": ("check", lambda self, task, answer: True),
    "Nothing": ("check", lambda self, task, answer: False),
    "Coin": ("check", lambda self, task, answer: random.random() < 0.5),
    "Crash": ("check", lambda self, task, answer: int(answer) == task.answer),
    "WrongKey": ("solution", lambda self, task: str(task.answer + 1)),
    "Clock": ("make", lambda self, rng: CharCount.make(self, random.Random())),
    "Same": ("make", lambda self, rng: CharCount.make(self, random.Random(1))),
    "Silent": ("make", lambda self, rng: replace(CharCount.make(self, rng), messages=())),
    "Part": ("check", lambda self, task, answer: str(task.answer) in answer),
    "Digit": ("check", lambda self, task, answer: answer.strip().isdigit()),
}
"""Methods that replace one of letter counting's."""
BROKEN = [type(name, (CharCount,), {method: body})() for name, (method, body) in WRONG.items()]
study = Study(
    question="Does `gnomon check` reject ten broken environments of thirty, and at most one of the sound ones?",
    why="Environments that are generated need an admission test (EvoEnv, arXiv 2605.14392). Each broken one has one "
    "method that is wrong. The author had seen the checks of all thirty.",
    arms={name: lambda seed, envs=envs: {"rejected": sum(not check_env(env, tasks=60).passed for env in envs)}
          for name, envs in (("broken", BROKEN), ("sound", SOUND))},
    claims=[Claim(measure="rejected", arm="broken", above=9.5), Claim(measure="rejected", arm="sound", within=1.5)],
    exact=True, prediction={"PASS": 0.98, "FAIL": 0.01, "INCONCLUSIVE": 0.01},
)  # fmt: skip
