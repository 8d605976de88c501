"""What a reward can pay without a correct answer, from its declared parts."""

from functools import partial

from gnomon_lab.studies import Claim, Study
from gnomon.verifiers import Price, pay

RIGHT = Price(name="correct", weight=1.0)


def flagged(seed: int, parts: tuple[Price, ...]) -> dict[str, float]:
    """Whether a wrong reply can earn as much as a right one."""
    found = pay([RIGHT, *parts])
    assert found is not None
    return {"overpaid": found.overpaid, "without": found.without / found.right}


study = Study(
    question="Is a reward that pays more for tools than for the answer found before training?",
    why="Where five tool calls pay five and being right pays one, chanting the call is what the reward asks for. "
    "Weights of 5 to 1 have to be refused, and a bonus that counts only with a correct answer has to pass.",
    arms={
        "five calls": partial(flagged, parts=(Price(name="tool", weight=1.0, most=5),)),
        "five calls, if correct": partial(flagged, parts=(Price(name="tool", weight=1.0, most=5, gate="correct"),)),
        "format": partial(flagged, parts=(Price(name="format", weight=0.1),)),
        "two halves": partial(flagged, parts=(Price(name="tool", weight=0.5), Price(name="format", weight=0.5))),
    },
    exact=True,
    claims=[
        *(Claim(measure="overpaid", arm=arm, above=0.5) for arm in ("five calls", "two halves")),
        *(Claim(measure="overpaid", arm=arm, within=0.5) for arm in ("five calls, if correct", "format")),
        Claim(measure="without", arm="five calls", above=4.9),
    ],
    prediction={"PASS": 0.95, "FAIL": 0.05, "INCONCLUSIVE": 0.0},
)
