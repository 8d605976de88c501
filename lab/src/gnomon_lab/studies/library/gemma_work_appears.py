"""Whether a pretrained base model writes more work because it pays, and only where the token limit leaves room."""

from gnomon_lab.studies import Claim, Study, final, final_of
from gnomon_lab.working import dip, growth, rise

study = Study(
    question="Do replies of Gemma 3 270M gain intermediate results and tokens where the limit has room for them?",
    why="The study smollm2-work-appears with another model, which ends a reply with a line. Of 64 replies before "
    "training, 9 had work, of which 3 were right, and of the other 55 replies 1 was right. The policy is made "
    "with `gnomon model gemma runs/gemma --accept-terms`.",
    base="gnomon_lab.working:ShownSums",
    settings={
        "policy": "runs/gemma", "lora": 16, "lr": 3e-4, "optim.warmup": 1, "steps": 10, "prompts": 8, "group": 8,
        "rollout.stop": ["\n"], "eval.tasks": 24, "eval.samples": 2, "eval.every": 1000, "save.every": 5,
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
    prediction={"PASS": 0.25, "FAIL": 0.2, "INCONCLUSIVE": 0.55},
)  # fmt: skip
