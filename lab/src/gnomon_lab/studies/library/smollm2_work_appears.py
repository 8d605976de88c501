"""Whether a pretrained model writes more work because it pays, and only where the token limit leaves room for it."""

from gnomon_lab.studies import Claim, Study, final, final_of
from gnomon_lab.working import dip, growth, rise

study = Study(
    question="Do replies of SmolLM2 gain intermediate results and tokens where the limit has room for them?",
    why="Only a right sum is rewarded. Two of the four examples in the prompt have work. Of 48 replies before "
    "training, 7 had work, of which 4 were right, and of the other 41 replies 4 were right. A limit of 6 "
    "tokens has room for a sum alone. The author had seen these 48 replies and the study work-appears, in "
    "which a tiny policy passed.",
    base="gnomon_lab.working:ShownSums",
    settings={
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 8, "prompts": 8, "group": 8,
        "rollout.stop": [], "eval.tasks": 24, "eval.samples": 2, "eval.every": 1000, "save.every": 4,
        "eval.sets.four.env": {"type": "gnomon_lab.working:ShownSums", "numbers": 4}, "eval.sets.four.tasks": 16,
    },
    arms={f"{limit} tokens": {"max_tokens": limit} for limit in (6, 40)},
    seeds=range(3),
    measures={"rise": rise, "growth": growth, "dip": dip, "final": final, "four numbers": final_of("four")},
    claims=[
        Claim(measure="rise", arm="40 tokens", above=0.1),
        Claim(measure="growth", arm="40 tokens", than="6 tokens", above=2.0),
    ],
    crashed={"final": 0.0},
    prediction={"PASS": 0.25, "FAIL": 0.15, "INCONCLUSIVE": 0.6},
)  # fmt: skip
