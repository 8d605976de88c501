"""What replies that make a verifier hang, crash or fill the memory do to the verdicts beside them."""

import random
import time

from gnomon_lab.studies import Claim, Study
from gnomon.workers import Pool, Returned

BOMBS = (
    "9**9**9", "sum(range(10**13))", "__import__('time').sleep(999)", "[0] * 10**11", "1 / 0", "(" * 999,
    "__import__('os')._exit(1)", "__import__('os').kill(__import__('os').getpid(), 9)", "exit()",
    "(lambda f: f(f))(lambda f: f(f))",
)  # fmt: skip


def judged(seed: int) -> dict[str, float]:
    """Of 1,000 replies, 20 of them bombs: wrong results of the others, bombs with a result, and the time."""
    plain = {f"{n} + {n % 7}": n + n % 7 for n in range(980)}
    replies = [*plain, *BOMBS, *BOMBS]
    random.Random(seed).shuffle(replies)
    began = time.monotonic()
    with Pool(eval, workers=2, seconds=0.5, wall=2.0) as pool:
        found = list(zip(replies, pool.map([(reply,) for reply in replies]), strict=True))
    wrong = sum(outcome != Returned(plain[reply]) for reply, outcome in found if reply in plain)
    results = sum(isinstance(outcome, Returned) for reply, outcome in found if reply not in plain)
    return {"wrong": wrong, "results of bombs": results, "within a minute": time.monotonic() - began < 60}


study = Study(
    question="Are 980 replies judged right within a minute, if 20 others hang, crash or bloat a verifier that is eval?",
    why="math-verify fails under multiprocessing: one reply can hang a scorer, and the score 0 hides it.",
    arms={"pool": judged}, exact=True,
    claims=[*(Claim(measure=name, arm="pool", within=0.5) for name in ("wrong", "results of bombs")),
            Claim(measure="within a minute", arm="pool", above=0.5)],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
