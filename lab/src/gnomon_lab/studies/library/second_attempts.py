"""Whether a policy already corrects itself before training."""

from collections.abc import Callable

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study


def attempts(first: int, last: int) -> Callable[[RunReader], float]:
    """Fraction of the replies of some steps that reject an attempt (`no` at the end of a line) and make another."""

    def rate(reader: RunReader) -> float:
        replies = [record.body["reply"] for step in range(first, last) for record in reader.records("rollout", step)]
        return sum(" no\n" in reply for reply in replies) / len(replies)

    return rate


study = Study(
    question="Does the policy correct itself before training, and does training only make it more frequent?",
    why="Phrases of self-reflection were taken for an effect of training, and base models already write them "
    "(Liu et al. 2025, arXiv 2503.20783). On countdown the policy rejects an attempt by `no` and makes another. It "
    "was fitted to such texts, as base models were. The lines: one reply in 20 at first, twice as many later.",
    base="countdown",
    settings={"steps": 20, "eval.every": 20, "eval.tasks": 32, "threads": 1},
    arms={"countdown": {}},
    seeds=range(5),
    measures={
        "before": attempts(0, 1),
        "double": lambda reader: attempts(15, 20)(reader) - 2 * attempts(0, 1)(reader),
    },
    claims=[Claim(measure="before", arm="countdown", above=0.05), Claim(measure="double", arm="countdown", above=0.0)],
    prediction={"PASS": 0.5, "FAIL": 0.3, "INCONCLUSIVE": 0.2},
)
