"""Whether the reason for a verdict is right, for every form that an answer takes and every rule that reads it."""

from functools import partial

from gnomon_lab.studies import Claim, Study
from gnomon.types import Status, Task
from gnomon.verifiers import Number, Strictness

RIGHT, WRONG, NONE, TEXT = Status.CORRECT, Status.WRONG, Status.NO_ANSWER, Status.MALFORMED
AFTER, MANY = Status.OUT_OF_PLACE, Status.SEVERAL
FORMS = {  # exact, trimmed, only, first, last, lenient
    "<answer>{right}</answer>":                       (RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT),
    "So it is <answer> {right} </answer>\n":          (AFTER, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT),
    "<answer>{wrong}</answer>":                       (WRONG, WRONG, WRONG, WRONG, WRONG, WRONG),
    "1 + 1 = {right}":                                (NONE, NONE, NONE, NONE, NONE, TEXT),
    "the answer is:\n{right}":                        (NONE, NONE, NONE, NONE, NONE, RIGHT),
    "<answer>{right}":                                (NONE, NONE, NONE, NONE, NONE, TEXT),
    "<answer>two</answer>":                           (TEXT, TEXT, TEXT, TEXT, TEXT, TEXT),
    "<answer>{right}</answer> I am sure.":            (AFTER, AFTER, RIGHT, RIGHT, RIGHT, RIGHT),
    "<answer>{wrong}</answer><answer>{right}</answer>": (MANY, MANY, MANY, WRONG, RIGHT, RIGHT),
    "<think><answer>{right}</answer>":                (NONE, NONE, NONE, NONE, NONE, NONE),
    "<think><answer>{wrong}</answer></think><answer>{right}</answer>": (RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT),
}  # fmt: skip


def other(seed: int, rule: Strictness) -> dict[str, float]:
    """How many replies get another status than the table says."""
    verifier, place = Number(strictness=rule), list(Strictness).index(rule)
    found = [verifier.verify(Task(id="0", messages=(), answer=2), form.format(right=2, wrong=3)) for form in FORMS]
    pairs = zip(found, FORMS.values(), strict=True)
    return {"other": sum(verdict.status is not expected[place] for verdict, expected in pairs)}


study = Study(
    question="Does every verdict name the right reason, for each form of an answer under each rule of reading it?",
    why="The extraction of the answer decides rewards: `1+1` is not `2`, and only the tagged form counts.",
    arms={rule.value: partial(other, rule=rule) for rule in Strictness}, exact=True,
    claims=[Claim(measure="other", arm=rule, within=0.5) for rule in Strictness],
    prediction={"PASS": 0.8, "FAIL": 0.2, "INCONCLUSIVE": 0.0},
)  # fmt: skip
