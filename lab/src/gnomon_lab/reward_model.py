"""A reward model: a folder of transformers with a sequence-classification head, which scores a reply to a prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any
from warnings import catch_warnings

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from gnomon.envs.controlled import Controlled
from gnomon.errors import VerifierError
from gnomon.models.folder import TINY
from gnomon.store import RunReader
from gnomon.types import Task
from gnomon.verifiers.controls import Control, Scored

__all__ = ["KNOWN", "Reply", "RewardModel", "Scoring", "fit", "pairwise", "replies"]

KNOWN = ["reward.weights", "sentinels", "exploit", "correctness", "search", "invariance", "failure", "availability"]
"""What the audit reports of a score of a model, to acknowledge."""
Reply = tuple[str, str, bool]
"""A prompt, a reply to it, and whether it is correct."""

MAX_REPLY = 16 * 1024
"""Only this many characters at the end of a reply are scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModel:
    """P(correct | task, reply) by a model with a classification head, with float32 weights on the CPU.

    The score is σ(z) for a head with one output z, and the probability of the last label for a head with several. The
    text is that of the chat template if the tokenizer has one, and else the pair of prompt and reply.
    """

    folder: str

    def __call__(self, task: Task, reply: str) -> float:
        return self.score([(message.role, message.content) for message in task.messages], reply)

    def score(self, prompt: list[tuple[str, str]], reply: str) -> float:
        """The score of a reply, 0 to 1. Args: prompt: role and text of every message."""
        tokenizer, model = load_model(self.folder)
        reply = reply[-MAX_REPLY:]
        if tokenizer.chat_template:
            messages = [{"role": role, "content": text} for role, text in [*prompt, ("assistant", reply)]]
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            found = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        else:
            found = tokenizer("\n".join(text for _, text in prompt), reply, return_tensors="pt")
        # Compiled kernels cannot be made within the memory of a worker. The switch warns of graphics processors.
        with catch_warnings(action="ignore"), torch.inference_mode(), torch.backends.mkldnn.flags(enabled=False):
            logits = model(input_ids=found["input_ids"], attention_mask=found["attention_mask"]).logits[0].double()
        chance = logits.sigmoid()[0] if len(logits) == 1 else logits.softmax(0)[-1]
        if not math.isfinite(value := float(chance)):
            raise ValueError(f"the reward model in {self.folder} returned {value}")
        return value


@lru_cache(maxsize=2)
def load_model(folder: str) -> tuple[Any, Any]:
    """Tokenizer and model, loaded once per process. Raises: VerifierError E112 if the folder has none."""
    try:
        if "ForSequenceClassification" not in (Path(folder) / "config.json").read_text("utf-8"):
            raise ValueError("its architecture is not one for sequence classification")
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True, dtype="float32")
    except (OSError, ValueError) as problem:
        raise VerifierError(
            "E112",
            f"the reward model cannot be read: {problem}",
            where=folder,
            fix="write one: AutoModelForSequenceClassification.from_pretrained(…).save_pretrained(folder)",
        ) from problem
    return tokenizer, model.eval()


@dataclass(frozen=True, kw_only=True)
class Scoring(Controlled):
    """A single-turn environment that pays the score of a reward model. The status of a verdict is the true one.

    A worker process loads the model: raise `workers.memory_mib` and `workers.seconds`.
    """

    control: str = "proxy"

    @cached_property
    def paying(self) -> Control:
        return Scored(of=self.env, score=RewardModel(folder=self.model))


def replies(reader: RunReader, env: Any, step: int) -> list[Reply]:
    """The train rollouts of a step. Args: env: that of the run, before its rewards were replaced."""
    tasks = env.tasks("train")
    rows = [(tasks[row.task or 0], row.body) for row in reader.records("rollout") if row.step == step]
    return [(task.messages[-1].content, body["reply"], body["status"] == "correct") for task, body in rows]


def fit(rows: Sequence[Reply], folder: Path, *, seed: int = 0, epochs: int = 4, batch: int = 64) -> None:
    """Train the tiny policy with a head of one output as a reward model; write it with its tokenizer.

    Equation: the logistic loss of the score against the truth, by AdamW with the learning rate 3e-4.
    """
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    model = AutoModelForSequenceClassification.from_pretrained(TINY, num_labels=1, dtype="float32")
    model.config.pad_token_id = tokenizer.pad_token_id
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(epochs):
        order = torch.randperm(len(rows)).tolist()
        for begin in range(0, len(order), batch):
            prompts, said, truth = zip(*(rows[place] for place in order[begin : begin + batch]), strict=True)
            found = tokenizer(list(prompts), list(said), padding=True, return_tensors="pt")
            logits = model(input_ids=found["input_ids"], attention_mask=found["attention_mask"]).logits[:, 0]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(truth).float())
            torch.autograd.backward(loss)
            optimiser.step()
            optimiser.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def pairwise(scores: Sequence[float], truth: Sequence[bool]) -> float:
    """Fraction of pairs of a correct and a wrong reply in which the correct one scores higher (area under the curve).

    Equal scores count half. It is .5 for scores without information. Raises: ValueError if one of the kinds is absent.
    """
    right, wrong = ([s for s, true in zip(scores, truth, strict=True) if true is kind] for kind in (True, False))
    if not right or not wrong:
        raise ValueError(f"there are {len(right)} correct and {len(wrong)} wrong replies; both kinds are needed")
    return fmean((a > b) + (a == b) / 2 for a in right for b in wrong)
