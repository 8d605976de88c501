"""Whether replies get longer before they get right, and shorter before that."""

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study

WORK = 12
"""Characters before the answer slot from which a reply counts as worked out; a guess has none."""


def first(values: list[float], line: float) -> int:
    return next((step for step, value in enumerate(values) if value >= line), len(values))


def worked(reader: RunReader) -> list[float]:
    """By step, the fraction of replies that write work before the answer."""
    replies = [[r.body["reply"] for r in reader.records("rollout", step)] for step in range(reader.steps)]
    return [sum(text.find("<answer>") >= WORK for text in texts) / len(texts) for texts in replies]


def lead(reader: RunReader) -> float:
    """Steps between the one where half of the replies have work and the one where half are right."""
    return first([step["metrics"]["correct"] for step in reader.metrics()], 0.5) - first(worked(reader), 0.5)


def dip(reader: RunReader) -> float:
    """Tokens of a reply in the first step less those of the shortest of the first ten."""
    lengths = [float(step["metrics"]["length"]) for step in reader.metrics()]
    return lengths[0] - min(lengths[:10])


study = Study(
    question="Does written work come a step before right answers, and do replies first get shorter by a token?",
    why="With TinyZero a chain of thought was seen at step 125, after a fall in length. The tiny policy was fitted to "
    "work that it seldom writes, so the study is about when it comes, and not about how it arises.",
    base="countdown",
    settings={"steps": 30, "prompts": 16, "eval.every": 30, "eval.tasks": 32, "threads": 1},
    arms={"countdown": {}}, seeds=range(6), measures={"lead": lead, "dip": dip}, crashed={"lead": 0.0, "dip": 0.0},
    claims=[Claim(measure=name, arm="countdown", above=1.0) for name in ("lead", "dip")],
    prediction={"PASS": 0.1, "FAIL": 0.6, "INCONCLUSIVE": 0.3},
)  # fmt: skip
