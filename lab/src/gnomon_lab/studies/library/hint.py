"""Whether a policy answers in a form that its prompt does not mention."""

from gnomon_lab.studies import Claim, Study, last_steps

study = Study(
    question="Is no answer in the right form for 20 steps, if the prompt does not show the form?",
    why="Without a hint in the prompt, 20 steps of GRPO on a base model brought not one hit. The shipped policy has "
    "practised answers in the slot, so it may need no hint: this study asks how far that carries.",
    base="char_count",
    settings={"steps": 20},
    arms={"hint": {}, "no hint": {"env.hint": False}},
    seeds=range(5),
    measures={"form": last_steps("part/format", 20)},
    claims=[Claim(measure="form", arm="no hint", within=0.01), Claim(measure="form", arm="hint", above=0.5)],
    crashed={"form": 0.0},
    prediction={"PASS": 0.02, "FAIL": 0.95, "INCONCLUSIVE": 0.03},
)
