"""Whether credit for the scores at later token budgets gives better answers at all of them."""

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study, final


def area(reader: RunReader) -> float:
    """Mean held-out accuracy over the budgets after training."""
    assert reader.held_out is not None
    return float(reader.held_out["reward"])


def early(reader: RunReader) -> float:
    """Held-out accuracy at the first budget after training."""
    parts = [part for row in reader.records("held_out", reader.steps) for part in row.body["parts"]]
    first: list[float] = [part["value"] for part in parts if part["name"] == "at_0"]
    return sum(first) / len(first)


study = Study(
    question="Is the mean accuracy over two token budgets three points higher with BRPO than with GRPO and RLOO?",
    why="BRPO (AnytimeReasoner, Qi et al. 2025, arXiv 2505.13438) credits a token with the scores at later budgets, "
    "less its own earlier scores and the group's mean. GRPO and RLOO credit all tokens with the mean score. "
    "A sum is answered within 8 tokens, which leaves room for a guess alone, and again within 32, which has room for "
    "work. The author had seen one run of BRPO with another seed: the mean rose from .13 to .44 in 20 steps.",
    base="gnomon_lab.cut:AskedAgain",
    settings={"max_tokens": 32, "steps": 12, "prompts": 16, "eval.tasks": 128, "eval.samples": 2, "eval.every": 1000},
    arms={name: {"objective": name} for name in ("brpo", "grpo", "rloo")},
    seeds=range(4),
    measures={"area": area, "early": early, "final": final},
    claims=[Claim(measure="area", arm="brpo", than=other, above=0.03) for other in ("grpo", "rloo")],
    crashed={"area": 0.0, "early": 0.0, "final": 0.0},
    prediction={"PASS": 0.05, "FAIL": 0.25, "INCONCLUSIVE": 0.7},
)
