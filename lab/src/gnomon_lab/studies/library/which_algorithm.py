"""Whether the exact algorithm matters at a tuned size of step."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Do REINFORCE, RLOO, GRPO and PPO end within five points of each other?",
    why="`The exact algorithm does not matter here` (TinyZero). All arms share the learning rate of the default.",
    base="char_count",
    settings={"steps": 40},
    arms={name: {"objective": name} for name in ("rloo", "reinforce", "grpo", "ppo")},
    claims=[Claim(measure="final", arm=name, than="rloo", within=0.05) for name in ("reinforce", "grpo", "ppo")],
    prediction={"PASS": 0.15, "FAIL": 0.35, "INCONCLUSIVE": 0.5},
)
