"""What TRL and verl compute under a name, beside the row of the method: coefficients of one optimiser step.

    python benchmarks/peer_losses.py [--write docs/objective-names.md]

Their own loss functions are called, and differentiated in the log-probability of every token. It needs trl 1.16.0 and
verl 0.9.1 in the environment; nothing of theirs is trained, and no model is loaded. The table is printed; `--write`
puts it between the markers of a page.
"""

from __future__ import annotations

import argparse
import types
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from torch import Tensor

from gnomon.objectives import Denominators, Objective, Rollouts, Tokens, objective, token_mean

BEGIN, END = "<!-- peer losses: begin -->\n", "<!-- peer losses: end -->\n"
SAME = 1e-6
"""Largest relative difference that single precision within their code leaves."""

REWARDS = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]], dtype=torch.float64)
LENGTHS = torch.tensor([[3, 5, 1, 2], [6, 2, 4, 4], [1, 1, 2, 6]])
STYLE = torch.tensor([[0, 0.5, 0, 1], [1, 0, 0, 0], [0.2, 0, 0, 0.4]], dtype=torch.float64)
"""A second part of the rewards, for methods that look at parts."""
GREEDY = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)[:, None].expand_as(REWARDS)
GROUPS, SIZE, LONGEST = *REWARDS.shape, int(LENGTHS.max())
ROLLOUTS, COUNT = REWARDS.numel(), int(LENGTHS.sum())
MASK = torch.arange(LONGEST) < LENGTHS.flatten()[:, None]

_draw = torch.Generator().manual_seed(1)
OLD = -3 * torch.rand(ROLLOUTS, LONGEST, generator=_draw, dtype=torch.float64) - 0.05
MOVED = 0.35 * torch.randn(ROLLOUTS, LONGEST, generator=_draw, dtype=torch.float64)
NOW = (OLD + MOVED).clamp(max=-1e-3)
ENTROPY = 2 * torch.rand(ROLLOUTS, LONGEST, generator=_draw, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One name in a library, and the row of the method."""

    library: str
    name: str
    row: str
    theirs: Tensor
    """[T] coefficients, a gradient that is followed upwards."""
    ours: Tensor
    why: str
    """What differs."""

    @property
    def apart(self) -> float:
        """The largest difference, relative to the row's largest coefficient."""
        return float((self.theirs - self.ours).abs().max() / self.ours.abs().max())

    @property
    def cosine(self) -> float:
        return float(self.theirs @ self.ours / (self.theirs.norm() * self.ours.norm()))

    @property
    def size(self) -> float:
        """The norm over that of the row."""
        return float(self.theirs.norm() / self.ours.norm())

    def __str__(self) -> str:
        cells = [self.library, self.name, f"`{self.row}" + ("" if " " in self.row else "`"), self.why]
        same = self.apart < SAME
        measured = ["the same", "", ""] if same else [f"{self.apart:.3f}", f"{self.cosine:.3f}", f"{self.size:.3f}"]
        return "| " + " | ".join([*cells, *measured]) + " |"


def kappa(row: Objective, *, moved: bool = True) -> Tensor:
    """[T] of a row. Args: moved: whether the policy has left the one that sampled."""
    parts = torch.stack([REWARDS, STYLE], dim=-1)
    seen = Rollouts(
        rewards=REWARDS, lengths=LENGTHS, greedy=GREEDY, parts=parts, part_weights=torch.ones_like(parts),
        logp=OLD[MASK], entropy=ENTROPY[MASK], segment=torch.zeros(COUNT, dtype=torch.int64),
    )  # fmt: skip
    sequence = seen.sequence
    tokens = Tokens(
        logp=(NOW if moved else OLD)[MASK], behavior_logp=OLD[MASK], advantage=row.credits(seen), sequence=sequence,
        group=sequence // SIZE,
    )  # fmt: skip
    totals = tuple(LENGTHS.sum(1).tolist())
    sizes = Denominators(groups=GROUPS, sequences=ROLLOUTS, tokens=COUNT, max_tokens=LONGEST, group_tokens=totals)
    return row.coefficients(tokens, sizes)


class Recorded(defaultdict[str, Any]):
    """Takes whatever metrics a trainer keeps."""

    def __init__(self) -> None:
        super().__init__(lambda: defaultdict(list))


def trl(loss_type: str, *, scale: str = "group", pieces: int = 1, **settings: Any) -> Tensor:
    """[T] of `GRPOTrainer._compute_loss`, with the defaults of `GRPOConfig` beside these settings.

    Args: scale: `scale_rewards`; pieces: micro-batches of the step.
    """
    from trl.trainer.grpo_trainer import GRPOTrainer

    centred = REWARDS - REWARDS.mean(1, keepdim=True)
    deviation = {"group": REWARDS.std(1, keepdim=True) + 1e-4, "batch": REWARDS.std() + 1e-4, "none": torch.ones(1)}
    advantages = (centred / deviation[scale]).flatten()
    known = {
        "delta": None, "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "use_bias_correction_kl": False,
        "vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0,
        "steps_per_generation": pieces,
    }  # fmt: skip
    alone = SimpleNamespace(
        num_processes=1, gather=lambda x: x, pad_across_processes=lambda x, **_: x, reduce=lambda x, **_: x
    )
    trainer = SimpleNamespace(
        args=SimpleNamespace(**known), accelerator=alone, model=SimpleNamespace(training=True), loss_type=loss_type,
        aux_loss_enabled=False, off_policy_mask_threshold=None, beta=0.0, use_vllm=False,
        vllm_importance_sampling_correction=False, current_gradient_accumulation_steps=pieces,
        max_completion_length=LONGEST, _entropy_bonus_enabled=False, _metrics=Recorded(),
    )  # fmt: skip
    defaults = {
        "top_entropy_quantile": 1.0,
        "importance_sampling_level": "token",
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
    }
    vars(trainer).update(defaults | settings)
    trainer.get_high_entropy_mask = types.MethodType(GRPOTrainer.get_high_entropy_mask, trainer)
    trainer.get_gamma_weights = GRPOTrainer.get_gamma_weights
    found = torch.zeros_like(NOW)
    for rows in torch.arange(ROLLOUTS).chunk(pieces):
        logp = NOW[rows].clone().requires_grad_()
        trainer._get_per_token_logps_and_entropies = lambda *_, logp=logp, rows=rows, **__: (logp, ENTROPY[rows], None)
        nothing = torch.zeros(len(rows), LONGEST, dtype=torch.int64)
        inputs = {
            "prompt_ids": nothing[:, :1], "prompt_mask": nothing[:, :1], "completion_ids": nothing,
            "completion_mask": MASK[rows].long(), "advantages": advantages[rows], "old_per_token_logps": OLD[rows],
            "num_items_in_batch": torch.tensor(float(COUNT)),
        }  # fmt: skip
        (-GRPOTrainer._compute_loss(trainer, None, inputs)).backward()
        assert logp.grad is not None
        found[rows] = logp.grad
    return found[MASK]


def verl(mode: str, estimator: str, *, over: str = "token-mean", moved: bool = True, **settings: Any) -> Tensor:
    """[T] of a registered advantage estimator and policy loss. Args: over: `loss_agg_mode`, by default verl's."""
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig

    there = MASK.to(torch.float64)
    paid = torch.zeros_like(NOW)
    paid[torch.arange(ROLLOUTS), LENGTHS.flatten() - 1] = REWARDS.flatten()
    known: dict[str, Any] = {"index": numpy.repeat(numpy.arange(GROUPS), SIZE)}
    match estimator:
        case "remax":
            known = {"reward_baselines": GREEDY.flatten()}
        case "gdpo":
            prompts = {"prompts": torch.zeros(ROLLOUTS, 1), "attention_mask": torch.cat([MASK[:, :1], MASK], 1).long()}
            values = {"right": REWARDS.flatten().numpy(), "style": STYLE.flatten().numpy()}
            known |= {"config": {"gdpo_reward_keys": ["right", "style"]}, "non_tensor_batch": values, "batch": prompts}
        case "grpo_passk":
            known["config"] = {}
        case "reinforce_plus_plus":
            known["config"] = SimpleNamespace(gamma=1.0)
    function = core_algos.get_adv_estimator_fn(estimator)
    advantages = function(token_level_rewards=paid, response_mask=there, **known)[0].to(torch.float64)
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, **settings)
    logp = (NOW if moved else OLD).clone().requires_grad_()
    loss, _ = core_algos.get_policy_loss_fn(mode)(
        old_log_prob=OLD, log_prob=logp, advantages=advantages, response_mask=there, loss_agg_mode=over, config=config
    )
    (-loss).backward()
    assert logp.grad is not None
    return logp.grad[MASK]


def of_trl() -> Iterator[Compared]:
    def one(name: str, row: str, theirs: Tensor, why: str = "", **options: Any) -> Compared:
        named = f"{row}`, sample deviation" if "deviation" in options else row
        return Compared(
            library="TRL", name=name, row=named, theirs=theirs, ours=kappa(objective(row, **options)), why=why
        )

    sampled = "sample standard deviation plus 1e-4, instead of the population's"
    yield one("`grpo`", "grpo", trl("grpo"), sampled)
    yield one("`grpo`", "grpo", trl("grpo"), deviation="sample", epsilon=1e-4)
    yield one("`dapo`, ε_high 0.28", "dapo", trl("dapo", epsilon_high=0.28), sampled)
    yield one("`dr_grpo`, `scale_rewards=none`", "dr_grpo", trl("dr_grpo", scale="none"))
    yield one("`dr_grpo` alone", "dr_grpo", trl("dr_grpo"), "still divides by the standard deviation of the group")
    yield one("`dapo`, `scale_rewards=batch`", "lite_ppo", trl("dapo", scale="batch"))
    yield one("`cispo`, ε_high 5", "cispo", trl("cispo", epsilon_high=5.0), sampled, clip_high=4.0)
    yield one("`sapo`", "sapo", trl("sapo"), sampled)
    whole = {"importance_sampling_level": "sequence"}
    yield one("`grpo`, sequence level", "gspo", trl("grpo", epsilon_low=3e-4, epsilon_high=4e-4, **whole), sampled)
    band = {"epsilon_low": 2e-3, "epsilon_high": 2.5e-3}
    yield one("`luspo`, sequence level", "luspo", trl("luspo", **band, **whole), sampled)
    yield one("`luspo` alone", "luspo", trl("luspo", **band), "token ratios, unless the sequence level is set too")
    yield one("`vespo`, `scale_rewards=none`", "vespo", trl("vespo", scale="none"))
    yield one("`vespo` alone", "vespo", trl("vespo"), "divides by the standard deviation of the group")
    mask = {"top_entropy_quantile": 0.2, "epsilon_high": 0.28}
    yield one("`top_entropy_quantile` 0.2", "entropy_mask", trl("dapo", **mask), sampled)
    split = "takes the quantile in each micro-batch"
    yield one("`top_entropy_quantile` 0.2 in 3 micro-batches", "entropy_mask", trl("dapo", pieces=3, **mask), split)
    plain, cut = trl("bnpo"), "divides by the tokens of each micro-batch"
    for pieces in (3, 12):
        name = f"`bnpo` in {pieces} micro-batches"
        theirs = trl("bnpo", pieces=pieces)
        yield Compared(library="TRL", name=name, row="bnpo` in one micro-batch", theirs=theirs, ours=plain, why=cut)


def of_verl() -> Iterator[Compared]:
    def one(name: str, row: Objective, theirs: Tensor, why: str = "", moved: bool = True) -> Compared:
        ours = kappa(row, moved=moved)
        return Compared(library="verl", name=name, row=row.name, theirs=theirs, ours=ours, why=why)

    def over_tokens(row: str, options: str = "", **values: Any) -> Objective:
        return replace(objective(row, **values), aggregate=token_mean, name=f"{row}`{options} over all tokens")

    yield one("`grpo`", objective("grpo"), verl("vanilla", "grpo"), "sample standard deviation; mean over all tokens")
    yield one("`grpo`", over_tokens("grpo", ", sample deviation,", deviation="sample"), verl("vanilla", "grpo"))
    yield one("`rloo`", over_tokens("loop"), verl("vanilla", "rloo"))
    yield one(
        "`opo`, summed, on policy",
        objective("opo"),
        verl("vanilla", "opo", over="seq-mean-token-sum", moved=False),
        moved=False,
    )
    yield one(
        "`gpg`",
        objective("gpg"),
        verl("gpg", "gpg"),
        "divides by the fraction of rewards that are not 0; mean over all tokens",
    )
    yield one("`gpg`", objective("gpg_verl"), verl("gpg", "gpg"))
    yield one(
        "`grpo_passk`, on policy",
        over_tokens("pass_at_all"),
        verl("vanilla", "grpo_passk", moved=False),
        "rewards only one of several best rollouts; divides by the standard deviation",
        moved=False,
    )
    yield one("`reinforce_plus_plus`", objective("reinforce_pp"), verl("vanilla", "reinforce_plus_plus"))
    yield one(
        "`reinforce_plus_plus_baseline`",
        replace(objective("reinforce_pp", baseline="group"), name="reinforce_pp` with the group's mean"),
        verl("vanilla", "reinforce_plus_plus_baseline"),
    )
    summed = {"over": "seq-mean-token-sum"}
    yield one(
        "`remax`, summed, on policy", objective("remax"), verl("vanilla", "remax", moved=False, **summed), moved=False
    )
    yield one("`remax`, summed", objective("remax"), verl("vanilla", "remax", **summed), "has a clipped ratio")
    yield one(
        "`gdpo`", objective("gdpo"), verl("vanilla", "gdpo"), "takes the second standard deviation over tokens, ε 1e-6"
    )
    yield one(
        "`gspo`",
        objective("gspo"),
        verl("gspo", "grpo", clip_ratio_low=3e-4, clip_ratio_high=4e-4),
        "mean over all tokens by default; sample standard deviation",
    )
    yield one(
        "`cispo` 0.2",
        objective("cispo"),
        verl("cispo", "grpo", clip_ratio_low=0.2, clip_ratio_high=0.2),
        "also a lower limit of the ratio, 0.8; sample standard deviation",
    )
    sampled = "sample standard deviation; always the mean over sequences of token means"
    for name, row, settings in (
        ("sapo", "sapo", {}),
        ("geo_mean", "gmpo", {"clip_ratio_low": 0.4, "clip_ratio_high": 0.4}),
    ):
        yield one(f"`{name}`", objective(row), verl(name, "grpo", **settings), sampled)


def table() -> str:
    head = (
        "| library | name | row | what differs | largest difference | cosine | size |\n|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(f"{found}\n" for found in (*of_trl(), *of_verl()))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", type=Path, help="a page with the markers")
    page = arguments.parse_args().write
    found = table()
    print(found, end="")
    if page:
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(before + BEGIN + found + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
