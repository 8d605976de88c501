"""Whether a reward without information raises the accuracy of a pretrained model, beside the true one."""

from gnomon_lab.studies import Claim, Study, gain

ADDITION = "gnomon_lab.addition:Addition"
NUMBERS = {"low": 1, "high": 19}
RANDOM = {"env.type": "gnomon.envs.controlled:Controlled", "env.of": ADDITION, "env.control": "random"}
EXPLOITS = (
    "all_numbers constant hedge order_to_judge other_answer prompt_echo prompt_number random_answer wrong_outpays"
)
INTENDED = [*(f"exploit.{name}" for name in EXPLOITS.split()), "invariance.id", "sentinels.parts_outpay"]

study = Study(
    question="Does a right reward raise the accuracy of SmolLM2 on sums more than a random one?",
    why="Random rewards raised Qwen by 21 points, the true ones by 29 (arXiv 2506.10947). A random reward pays half of "
    "the replies with a number, whatever it is.",
    base=ADDITION,
    settings={
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 24, "eval.samples": 4, "eval.every": 1000, "save.every": 2,
    },
    arms={
        "right": {f"env.{key}": value for key, value in NUMBERS.items()},
        "random": {**RANDOM, "env.options": NUMBERS, "audit.acknowledge": INTENDED},
    },
    seeds=range(3),
    measures={"gain": gain},
    claims=[Claim(measure="gain", arm="right", than="random", above=0.0)],
    crashed={"gain": 0.0},
    prediction={"PASS": 0.55, "FAIL": 0.02, "INCONCLUSIVE": 0.43},
)  # fmt: skip
