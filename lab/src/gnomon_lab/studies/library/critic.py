"""Whether a critic earns its cost."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Is RLOO without a critic at most two points behind PPO with one?",
    why="Policy, critic and reward model tripled the cost of RLHF. With an outcome reward and groups, the mean of the "
    "group may do as well (Ahmadian et al. 2024, arXiv 2402.14740). Equal rollouts and updates, not equal time.",
    base="char_count",
    settings={"steps": 40},
    arms={"rloo": {"objective": "rloo"}, "ppo": {"objective": "ppo"}},
    claims=[Claim(measure="final", arm="rloo", than="ppo", above=-0.02)],
    prediction={"PASS": 0.75, "FAIL": 0.05, "INCONCLUSIVE": 0.2},
)
