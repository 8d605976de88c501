"""Whether every family of objectives learns with its default options."""

from gnomon_lab.studies import Claim, Study, gain

COUNTS: dict[str, object] = {"env.format": 0.0}
FAMILIES: dict[str, dict[str, object]] = {
    "rloo": {},
    "dr_grpo": {},
    "grpo": {},
    "ppo": {},
    "gspo": {},
    "cispo": {},
    "maxrl": COUNTS,
    "rl2ml": COUNTS,
    "pkpo_loo": COUNTS,
    "verifree": {},
    "online_dpo": {},
    "remax": {},
}

study = Study(
    question="Do twelve families of objectives each raise held-out pass@1 by ten points with default options?",
    why="An objective can have the right expected gradient and still not learn, for example from too much noise. Two "
    "optimiser steps in each step, so ratios and clips act. Objectives that count successes have rewards of 0 and 1. "
    "The author had seen runs of all twelve with twice the tasks per step, each of which gained forty points.",
    base="char_count",
    settings={"steps": 30, "optim.minibatches": 2, "prompts": 16, "eval.every": 30, "eval.tasks": 128},
    arms={name: {"objective": name, **own} for name, own in FAMILIES.items()},
    seeds=range(5),
    measures={"gain": gain},
    claims=[Claim(measure="gain", arm=name, above=0.1) for name in FAMILIES],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.4, "FAIL": 0.02, "INCONCLUSIVE": 0.58},
)
