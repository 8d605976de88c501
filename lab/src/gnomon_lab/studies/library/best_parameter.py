"""Which parameter between expected reward and maximum likelihood gains most in one small step, and what it hangs on."""

from functools import partial

from gnomon.theory.tuning import KnownChance, best_member, gain_terms, metric
from gnomon_lab.studies import Claim, Study

HARD, MEDIUM = (0.02, 0.05, 0.1), (0.2, 0.3, 0.5)


def best(seed: int, name: str, noise: float, chances: tuple[float, ...]) -> dict[str, float]:
    """The member of family C with the largest first-order gain, in groups of 8."""
    terms = gain_terms(dict.fromkeys(map(KnownChance, chances), 1.0), group=8, of=metric(name), noise=noise)
    return {"best parameter": best_member("C", terms).parameter}


study = Study(
    question="Does the best objective between expected reward and maximum likelihood depend on metric and noise?",
    why="A surrogate is often praised for being close to maximum likelihood. RL2ML (Zheng 2026, arXiv 2605.30154) "
    "says that metric and noise decide. Noise is the variance of the score of a success over its squared mean. The "
    "gain is that of one small step, over tasks of several difficulties.",
    arms={
        "pass@1": partial(best, name="pass@1", noise=1.0, chances=HARD + MEDIUM),
        "pass@8": partial(best, name="pass@8", noise=1.0, chances=HARD + MEDIUM),
        "much noise": partial(best, name="pass@1", noise=10.0, chances=HARD + MEDIUM),
        "little noise": partial(best, name="pass@1", noise=0.1, chances=HARD + MEDIUM),
        "likelihood": lambda seed: {"best parameter": 1.0},
    },
    exact=True,
    claims=[
        Claim(measure="best parameter", arm="pass@8", than="pass@1", above=0.04),
        Claim(measure="best parameter", arm="little noise", than="much noise", above=0.04),
        Claim(measure="best parameter", arm="likelihood", than="pass@1", above=0.04),
    ],
    prediction={"PASS": 0.7, "FAIL": 0.3, "INCONCLUSIVE": 0.0},
)
