"""A trainer of a hundred lines, with padded batches, masks and micro-batches. Faults can be planted in it."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

END = 2
FAULTS = {
    "one advantage": ("one step", "only the last rollout of each group has an advantage"),
    "no end token": ("one step", "the end token is not in the loss"),
    "no first token": ("one step", "the first token is not in the loss"),
    "over the step": ("one step", "rewards are compared with the mean of the whole step"),
    "no baseline": ("one step", "the advantage is the reward, without a baseline"),
    "own length": ("one step", "each rollout is divided by its own length"),
    "mean of means": ("micro-batches", "in micro-batches of 6, it differs from the same step in one"),
    "not accumulated": ("micro-batches", "in micro-batches of 6, it differs from the same step in one"),
    "neighbours": ("order of rows", "it depends on the order of the rows"),
    "attends to padding": ("padding", "prompts of other lengths in the step change it"),
    "tools trained": ("tokens of tools", "the tokens of tools are trained"),
    "per turn": ("tokens of tools", "advantages are normalised within each turn"),
    "no filter": ("truncated, masked", "the option changes nothing"),
    "always filters": ("truncated", "truncated rollouts are left out of the loss"),
    "alone": ("groups of one", "the gradient is not finite"),
    "rounding": ("equal rewards", "the rounding of equal rewards is divided by a deviation of nearly 0"),
    "failed is wrong": ("failed rollout", "a failed rollout counts as reward 0"),
    "reversed penalty": ("KL penalty", "the two policies of the penalty are exchanged"),
    "k1": ("KL penalty", "k1 in the loss, whose expected gradient is 0"),
    "exchanged clip": ("clip edges", "the two sides of the clip are exchanged"),
    "no minimum": ("clip edges", "the clipped ratio is used alone, without the minimum"),
    "cold": ("temperature", "logits are not divided by the temperature"),
}
"""Each with the check that finds it, and the name that it gets."""
ONLY = {"own length": "dr_grpo", "mean of means": "dapo", "exchanged clip": "dapo"}
"""Faults that need an objective other than grpo."""


@cache
def model_in(folder: str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)


def logps(model: Any, batch: SimpleNamespace, fault: str) -> Tensor:
    """[rows, longest] of the completions, padded on the right; prompts are padded on the left."""
    ahead = max(len(row.prompt) for row in batch.rows)
    behind = max(len(row.completion) for row in batch.rows)
    ids, there = torch.full((len(batch.rows), ahead + behind), END), torch.zeros(len(batch.rows), ahead + behind)
    for i, row in enumerate(batch.rows):
        start, end = ahead - len(row.prompt), ahead + len(row.completion)
        ids[i, start:end] = torch.tensor([*row.prompt, *row.completion])
        there[i, start:end] = 1
    places = (there.cumsum(1) - 1).clamp(min=0).long()
    attended = torch.ones_like(there) if fault == "attends to padding" else there
    logits = model(input_ids=ids, attention_mask=attended.long(), position_ids=places).logits[:, ahead - 1 : -1]
    logits = logits if fault == "cold" else logits / batch.temperature
    return logits.log_softmax(-1).gather(-1, ids[:, ahead:, None])[..., 0]


def padded(rows: list[Any]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def scaled(rewards: Tensor, batch: SimpleNamespace, fault: str) -> Tensor:
    """Advantages of one group. A reward of NaN is that of a rollout that could not be judged."""
    if fault == "no baseline":
        return rewards
    if fault == "over the step":
        every = torch.tensor([row.reward for row in batch.rows if row.reward is not None], dtype=torch.float64)
        return rewards - every.mean()
    known = rewards[~rewards.isnan()]
    centred = rewards - known.mean()
    if batch.objective == "dr_grpo":
        return centred
    spread = known.std() if fault == "alone" else known.std(correction=0)
    if fault == "rounding":
        return centred / (spread + 1e-8)
    if known.max() == known.min() and fault != "alone":
        return torch.zeros_like(centred)
    return centred / (spread + 1e-6)


def advantages(batch: SimpleNamespace, masks: Tensor, fault: str) -> Tensor:
    """[rows, longest]"""
    rewards = torch.tensor([torch.nan if row.reward is None else row.reward for row in batch.rows])
    rewards = rewards.nan_to_num(0.0) if fault == "failed is wrong" else rewards
    groups = torch.tensor([row.group for row in batch.rows])
    if fault == "neighbours":
        groups = torch.arange(len(groups)).roll(1) // batch.group_size
    turn = ((masks == 1) & (masks.roll(1, 1) == 0)).long()
    turn[:, 0] = 0
    turn = turn.cumsum(1) if fault == "per turn" else torch.zeros_like(turn)
    found = torch.zeros(masks.shape, dtype=torch.float64)
    for group in groups.unique():
        for number in turn.unique():
            rows = (groups == group) & ((turn == number) & (masks == 1)).any(1)
            if rows.any():
                value = scaled(rewards[rows] if fault == "rounding" else rewards[rows].double(), batch, fault).double()
                if fault == "one advantage":
                    value[:-1] = 0
                found[rows] = torch.where(turn[rows] == number, value[:, None], found[rows])
    found[rewards.isnan()] = 0
    return found


def gradient(batch: SimpleNamespace, fault: str = "") -> dict[str, Tensor]:
    model = model_in(batch.model)
    now = logps(model, batch, fault)
    with torch.no_grad():
        anchor = logps(model_in(batch.reference), batch, fault)
    masks = padded([row.mask for row in batch.rows])
    advantage = advantages(batch, masks, fault)
    if fault == "tools trained":
        masks = padded([[1] * len(row.completion) for row in batch.rows])
    ends = torch.tensor([row.completion[-1] == END for row in batch.rows])
    if (batch.mask_truncated and fault != "no filter") or fault == "always filters":
        masks = masks * ends[:, None]
    if fault == "no first token":
        masks[:, 0] = 0
    if fault == "no end token":
        masks = masks * padded([[int(token != END) for token in row.completion] for row in batch.rows])
    judged = torch.tensor([row.reward is not None or fault == "failed is wrong" for row in batch.rows])
    masks = masks * judged[:, None]
    old = padded([row.behavior_logp for row in batch.rows]).double() if batch.rows[0].behavior_logp else now.detach()
    low, high = batch.options["clip_low"], batch.options["clip_high"]
    low, high = (high, low) if fault == "exchanged clip" else (low, high)
    ratio = (now - old).exp()
    clipped = ratio.clamp(1 - low, 1 + high) * advantage
    gain = clipped if fault == "no minimum" else torch.minimum(ratio * advantage, clipped)
    apart = now - anchor if fault == "reversed penalty" else anchor - now
    penalty = -apart if fault == "k1" else apart.exp() - apart - 1
    loss = (batch.kl * penalty - gain) * masks
    model.zero_grad()
    pieces = torch.arange(len(batch.rows)).split(batch.micro_batch)
    for rows in pieces:
        if batch.objective == "dapo":
            whole = masks[rows].sum() * len(pieces) if fault == "mean of means" else masks.sum()
            part = loss[rows].sum() / whole
        elif batch.objective == "dr_grpo" and fault != "own length":
            part = loss[rows].sum() / (len(masks) * batch.max_tokens)
        else:
            part = (loss[rows].sum(1) / masks[rows].sum(1).clamp(min=1)).sum() / len(masks)
        part = part * len(pieces) if fault == "not accumulated" else part
        part.backward(retain_graph=True)
    return {name: value.grad.clone() for name, value in model.named_parameters()}
