"""Whether training a pretrained model on pass@1 also raises pass@8, or only sharpens what it knows."""

from gnomon.comparison.measures import pass_at
from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, gain


def gain_at_8(reader: RunReader) -> float:
    """Held-out pass@8 after training less that before it."""
    assert reader.baseline is not None
    return pass_at(8)(reader) - float(reader.baseline["pass_at"]["8"]["value"])


study = Study(
    question="Does training SmolLM2 on pass@1 raise its pass@8 on sums too?",
    why="Training on rewards is reported to sharpen a model: pass@1 rises, pass@k of a large k does not (Yue et al. "
    "2025, arXiv 2504.13837). The author had seen curves of two-digit sums over 10 steps, where pass@8 rose from .28 "
    "to .65.",
    base="gnomon_lab.addition:Addition",
    settings={
        "env.low": 1, "env.high": 19, "objective": "rloo",
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 19, "eval.samples": 8, "eval.pass_at": [1, 8],
        "eval.every": 1000, "save.every": 2,
    },
    arms={"rloo": {}},
    seeds=range(3),
    measures={"gain": gain, "gain of pass@8": gain_at_8},
    claims=[Claim(measure="gain of pass@8", arm="rloo", above=0.0)],
    crashed={"gain": 0.0, "gain of pass@8": 0.0},
    prediction={"PASS": 0.8, "FAIL": 0.01, "INCONCLUSIVE": 0.19},
)  # fmt: skip
