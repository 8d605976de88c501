"""Whether training on pass@4 raises held-out pass@8."""

from gnomon_lab.studies import Claim, Study, final, pass_at

study = Study(
    question="Does training on pass@4 raise pass@8 above what training on pass@1 reaches?",
    why="In expectation it does (pass-at-k). In training it also has more noise: hard tasks have few successes.",
    base="countdown",
    settings={"steps": 40, "eval.samples": 8, "eval.pass_at": [1, 8], "eval.tasks": 128},
    arms={"pass@1": {"objective": "rloo"}, "pass@4": {"objective": "pkpo", "objective.k": 4}},
    seeds=range(5),
    measures={"final": final, "pass@8": pass_at(8)},
    claims=[
        Claim(measure="pass@8", arm="pass@4", than="pass@1", above=0.0),
        Claim(measure="final", arm="pass@1", than="pass@4", above=-0.02),
    ],
    crashed={"final": 0.0, "pass@8": 0.0},
    prediction={"PASS": 0.25, "FAIL": 0.2, "INCONCLUSIVE": 0.55},
)
