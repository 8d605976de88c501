"""Whether maximum likelihood learns hard tasks faster than expected reward."""

from gnomon_lab.studies import Claim, Study, final, pass_at

study = Study(
    question="Does maximum likelihood reach a higher pass@8 than expected reward on tasks that are mostly unsolved?",
    why="MaxRL weighs a task by one over its rate of success (Tajwar et al. 2026, arXiv 2602.02710). Countdown "
    "with four numbers is beyond what the shipped policy practised.",
    base="countdown",
    settings={
        "env.numbers": [4],
        "env.format": 0,
        "steps": 40,
        "eval.samples": 8,
        "eval.pass_at": [1, 8],
        "eval.tasks": 128,
    },
    arms={"reward": {"objective": "rloo"}, "likelihood": {"objective": "maxrl_control"}},
    seeds=range(5),
    measures={"final": final, "pass@8": pass_at(8)},
    claims=[Claim(measure="pass@8", arm="likelihood", than="reward", above=0.0)],
    crashed={"final": 0.0, "pass@8": 0.0},
    prediction={"PASS": 0.3, "FAIL": 0.1, "INCONCLUSIVE": 0.6},
)
