"""What training on one environment does to the held-out tasks of three others: transfer, or forgetting."""

from statistics import fmean

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, gain_of

ENVS = ("char_count", "arithmetic", "countdown", "scramble")


def own(reader: RunReader) -> float:
    """Gain in held-out pass@1 on the environment that was trained on."""
    return gain_of(reader.genesis["config"]["env"]["type"])(reader)


def others(reader: RunReader) -> float:
    """Mean gain on the three others."""
    return fmean(gain_of(name)(reader) for name in ENVS if name != reader.genesis["config"]["env"]["type"])


study = Study(
    question="Does training on one of four environments raise held-out pass@1 on the other three?",
    why="A gain on the trained tasks alone does not show that a policy learned something general. It may learn to "
    "sample likelier replies, which helps everywhere, or lose what it could do elsewhere. The policy practised all "
    "four environments before training. Each run is evaluated on 64 held-out tasks of every environment.",
    base="char_count",
    settings={
        "steps": 16, "prompts": 8, "group": 8, "threads": 1, "eval.every": 16, "eval.tasks": 8,
        **{f"eval.sets.{name}": {"env": name, "tasks": 64} for name in ENVS},
    },
    arms={name: {"env": name} for name in ENVS},
    seeds=range(10, 16),
    measures={"others": others, "own": own},
    claims=[Claim(measure="others", arm=name, above=0.0) for name in ENVS],
    crashed={"others": 0.0, "own": 0.0},
    prediction={"PASS": 0.1, "FAIL": 0.2, "INCONCLUSIVE": 0.7},
)  # fmt: skip
