"""Whether written work appears because it pays, and only where the token limit leaves room for it."""

from functools import partial

from gnomon_lab.studies import Claim, Study, final, final_of
from gnomon_lab.working import dip, growth, held_out_by_additions, rise

study = Study(
    question="Do replies gain intermediate results, tokens and accuracy, where the limit has room for work?",
    why="TinyZero's length fell and then rose with a chain of thought; a tight limit was suspected to prevent it. A "
    "right sum alone is rewarded, and a readable answer by .1. The tiny policy mostly guesses a sum at once, one "
    "guess in nine is right, and it was fitted to some careful work. A limit of 8 tokens has room for a guess, 14 for "
    "one addition, 32 for all. The author had seen one run at 32 tokens with another seed: no dip, share .24 to .9.",
    base="arithmetic",
    settings={
        "env.signs": "+", "steps": 10, "prompts": 16, "eval.tasks": 48, "eval.every": 1000,
        "eval.sets.three.env": {"type": "arithmetic", "terms": 3, "signs": "+"}, "eval.sets.three.tasks": 32,
    },
    arms={f"{limit} tokens": {"max_tokens": limit} for limit in (8, 14, 32)},
    seeds=range(3),
    measures={
        "rise": rise, "growth": growth, "dip": dip, "final": final, "three numbers": final_of("three"),
        "one addition": partial(held_out_by_additions, count=1),
        "two additions": partial(held_out_by_additions, count=2),
    },
    claims=[
        Claim(measure="rise", arm="32 tokens", above=0.3),
        Claim(measure="growth", arm="32 tokens", than="8 tokens", above=3.0),
        Claim(measure="final", arm="32 tokens", than="8 tokens", above=0.2),
    ],
    crashed={"final": 0.0},
    prediction={"PASS": 0.8, "FAIL": 0.02, "INCONCLUSIVE": 0.18},
)  # fmt: skip
