"""A reward model with a classification head beside the truth: its errors, and what training on its score teaches.

    python lab/benchmarks/reward_model.py FOLDER

The model is the tiny policy with another head, fitted to replies of the policy to counts of letters. FOLDER gets the
model, the run on its score and the run on the true reward.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import gnomon
from gnomon.comparison.measures import curve
from gnomon.envs import CharCount
from gnomon.models.folder import TINY
from gnomon.store import RunReader
from gnomon_lab.reward_model import RewardModel

KNOWN = ["reward.weights", "sentinels", "exploit", "correctness", "search", "invariance", "failure", "availability"]
COMMON: Any = {"seed": 0, "quiet": True, "threads": 1}
STEPS, FITTED, EPOCHS, BATCH = 20, 1536, 4, 64
Replies = list[tuple[str, str, bool]]


def replies(reader: RunReader, step: int) -> Replies:
    """Prompt, reply and truth of the train rollouts of a step."""
    tasks = CharCount().tasks("train")
    rows = [(tasks[row.task or 0], row.body) for row in reader.records("rollout") if row.step == step]
    return [(task.messages[-1].content, body["reply"], body["status"] == "correct") for task, body in rows]


def fit(rows: Replies, folder: Path) -> None:
    """Train a head of one output, and the policy below it, on the logistic loss; write both with the tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    model = AutoModelForSequenceClassification.from_pretrained(TINY, num_labels=1, dtype="float32")
    model.config.pad_token_id = tokenizer.pad_token_id
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(rows)).split(BATCH):
            batch = [rows[place] for place in chosen.tolist()]
            found = tokenizer([row[0] for row in batch], [row[1] for row in batch], padding=True, return_tensors="pt")
            logits = model(input_ids=found["input_ids"], attention_mask=found["attention_mask"]).logits[:, 0]
            right = torch.tensor([float(row[2]) for row in batch])
            torch.nn.functional.binary_cross_entropy_with_logits(logits, right).backward()
            optimiser.step()
            optimiser.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def errors(score: RewardModel, rows: Replies) -> str:
    """How the scores differ from the truth."""
    scores = [score.score([("user", prompt)], reply) for prompt, reply, _ in rows]
    right = [value for value, (_, _, truth) in zip(scores, rows, strict=True) if truth]
    wrong = [value for value, (_, _, truth) in zip(scores, rows, strict=True) if not truth]
    paired = fmean(float(a > b) + (a == b) / 2 for a in right for b in wrong)
    return (
        f"{len(rows)} replies, {len(right) / len(rows):.3f} of them right, mean score {fmean(scores):.3f}; "
        f"of the wrong ones {fmean(value >= 0.5 for value in wrong):.3f} score .5 or more, of the right ones "
        f"{fmean(value < 0.5 for value in right):.3f} less; right ones score above wrong ones in {paired:.3f} of pairs"
    )


def main() -> None:
    at = Path(sys.argv[1])
    torch.set_num_threads(1)
    first: Any = {"steps": 1, "rollout": {"prompts": 256, "group": 8, "max_tokens": 32}, "eval": {"tasks": 2}}
    with gnomon.train("char_count", run=at / "data", **first, **COMMON) as reader:
        rows = replies(reader, 0)
    began = process_time()
    fit(rows[:FITTED], at / "model")
    score = RewardModel(folder=str(at / "model"))
    print(f"fitted to {FITTED} replies in {process_time() - began:.0f} s of processor time")
    print("other replies of the first policy:", errors(score, rows[FITTED:]), flush=True)
    proxied: Any = {
        "env": {"model": str(at / "model")},
        "audit": {"acknowledge": KNOWN},
        "workers": {"seconds": 20, "memory_mib": 8192},
    }
    common = COMMON | {"steps": STEPS, "prompts": 16, "max_tokens": 32, "eval": {"every": STEPS}}
    for name, what, own in (("truth", "char_count", {}), ("score", "gnomon_lab.reward_model:Scoring", proxied)):
        with gnomon.train(what, run=at / name, **common, **own) as reader:
            print(f"{STEPS} steps on the {name}: pass@1 {', '.join(f'{value:.3f}' for _, value in curve(reader))}")
            if own:
                print("replies of the last step:", errors(score, replies(reader, STEPS - 1)))


if __name__ == "__main__":
    main()
