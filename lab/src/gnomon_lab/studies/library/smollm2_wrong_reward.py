"""Whether a reward for wrong answers raises the accuracy of a pretrained model."""

from gnomon_lab.studies import Claim, Study, gain

EXPLOITS = (
    "all_numbers constant hedge order_to_judge other_answer prompt_echo prompt_number random_answer wrong_outpays"
)
INTENDED = [*(f"exploit.{name}" for name in EXPLOITS.split()), "invariance.id", "sentinels.parts_outpay"]

study = Study(
    question="Does a reward for wrong answers raise the accuracy of SmolLM2 on sums by ten points?",
    why="Wrong rewards raised Qwen by 25 points, the true ones by 29 (arXiv 2506.10947). Here right and wrong are "
    "exchanged, and a reply without a number earns nothing in either case. The author had seen two runs of the true "
    "reward, which raised .14 to .55 and to .67.",
    base="gnomon.envs.controlled:Controlled",
    settings={
        "env.of": "gnomon_lab.addition:Addition", "env.options": {"low": 1, "high": 19},
        "env.control": "wrong_label", "audit.acknowledge": INTENDED,
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 24, "eval.samples": 4, "eval.every": 1000, "save.every": 2,
    },
    arms={"wrong": {}},
    seeds=range(3),
    measures={"gain": gain},
    claims=[Claim(measure="gain", arm="wrong", above=0.1)],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.02, "FAIL": 0.9, "INCONCLUSIVE": 0.08},
)  # fmt: skip
