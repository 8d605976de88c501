"""Whether every task of countdown can be solved, and hostile answers are refused at once."""

import random
import time

from gnomon.envs.countdown import Countdown
from gnomon_lab.studies import Claim, Study

HOSTILE = (
    "84**11**13", "9**9**9", "__import__('os')", "x", "1;2", "(" * 5000, "1" * 5000, "1e3", "3 // 1", "~3", "1/0",
)  # fmt: skip


def tasks(seed: int) -> dict[str, float]:
    """Of 2,000 tasks, how many their own solution does not solve, and the slowest verdict on hostile answers."""
    env, draw = Countdown(numbers=(3, 4)), random.Random(seed)
    unsolved, accepted, slowest = 0, 0, 0.0
    for _ in range(2000):
        task = env.make(draw)
        unsolved += not env.verify(task, f"<answer>{env.solution(task)}</answer>").correct
    for answer in HOSTILE:
        began = time.process_time()
        accepted += env.verify(task, f"<answer>{answer}</answer>").correct
        slowest = max(slowest, time.process_time() - began)
    return {"unsolved": unsolved, "accepted": accepted, "below 0.1 s": slowest < 0.1}


study = Study(
    question="Can every countdown task be solved, and are hostile expressions refused at once?",
    why="TinyZero drew targets that may be out of reach, and let `**` through: one reply could hang the scorer.",
    arms={"gnomon": tasks},
    exact=True,
    claims=[
        *(Claim(measure=name, arm="gnomon", within=0.5) for name in ("unsolved", "accepted")),
        Claim(measure="below 0.1 s", arm="gnomon", above=0.5),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
