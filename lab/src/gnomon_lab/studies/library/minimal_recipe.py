"""Whether the recipe for MATH makes a step as it stands, with another policy and other rows."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from gnomon.store import RunReader
from gnomon_lab.studies import Claim, Study

SMALL = ["policy=tiny", "policy.renderer=plain", "policy.dtype=float32", "policy.activation_checkpointing=false"]
SMALL += ["steps=1", "prompts=16", "group=2", "max_tokens=16", "rollout.context=256", "eval.tasks=4"]


def stepped(seed: int) -> dict[str, float]:
    """Steps of a run; its train prompts that ask for a box; rollouts of tasks of the levels 1 and 2."""
    with tempfile.TemporaryDirectory() as scratch:
        run, paths = Path(scratch) / "run", {"path": Path(scratch) / "a.jsonl", "test": Path(scratch) / "b.jsonl"}
        for odd, path in enumerate(paths.values()):
            rows = [{"problem": f"{n} + {n}", "answer": str(2 * n), "level": n // 2 % 5 + 1} for n in range(odd, 80, 2)]
            path.write_text("\n".join(map(json.dumps, rows)))
        words = [*SMALL, f"run={run}", *(f"env.{name}={path}" for name, path in paths.items())]
        subprocess.run([sys.executable, "-m", "gnomon", "train", "math-3-5-qwen2.5-1.5b.toml", *words], check=True)
        with RunReader(run) as reader:
            bodies = [record.body for record in reader.records("task", step=0)]
            texts = [str(body["messages"]) for body in bodies if body["of"] == "rollout"]
            asked = [int(text.split(" + ")[0].split("'")[-1]) // 2 % 5 + 1 for text in texts]
            return {"steps": reader.steps, "boxed": sum("boxed{}" in text for text in texts), "easy": min(asked)}


study = Study(
    question="Does the recipe of Dr. GRPO for MATH, levels 3 to 5, train a step with a policy that fits a laptop?",
    why="The recipe of Liu et al. 2025 (arXiv 2503.20783) is short. Ours names a model and rows that need a GPU and a "
    "hub. So this study replaces both, and the chat format, and keeps the rest. It says nothing about accuracy.",
    arms={"stand-in": stepped}, exact=True,
    claims=[Claim(measure=name, arm="stand-in", above=line) for name, line in (("steps", 0.5), ("boxed", 15.5))]
    + [Claim(measure="easy", arm="stand-in", above=2.5)],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
