"""Whether maximum likelihood learns hard tasks faster than expected reward, if one reply in ten is correct."""

from gnomon_lab.studies import Claim, Study, final, pass_at

study = Study(
    question="Does maximum likelihood reach a higher pass@8 than expected reward where one reply in ten is correct?",
    why="MaxRL weighs a task by one over its rate of success (Tajwar et al. 2026, arXiv 2602.02710). In "
    "`likelihood-trained`, neither arm solved any task. The shipped policy practised sums of numbers up to 50. The "
    "author knew its results for numbers up to 99 before training: pass@1 of .10 and pass@8 of .35.",
    base="arithmetic",
    settings={
        "env.largest": 99,
        "env.format": 0,
        "group": 16,
        "prompts": 16,
        "steps": 60,
        "eval.every": 60,
        "eval.samples": 8,
        "eval.pass_at": [1, 8],
        "eval.tasks": 128,
    },
    arms={"reward": {"objective": "rloo"}, "likelihood": {"objective": "maxrl_control"}},
    seeds=range(8),
    measures={"final": final, "pass@8": pass_at(8)},
    claims=[Claim(measure="pass@8", arm="likelihood", than="reward", above=0.0)],
    crashed={"final": 0.0, "pass@8": 0.0},
    prediction={"PASS": 0.35, "FAIL": 0.1, "INCONCLUSIVE": 0.55},
)
