"""What is asked of a trainer, one property a check, and how its answer is graded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from gnomon.conformance.batch import ALPHABET, Batch, Row, base, group_of
from gnomon.conformance.expected import every, readings_of, variants
from gnomon.conformance.policy import policies
from gnomon.conformance.process import Trainer
from gnomon.conformance.subject import SAME, Cell, Grade, Refused, Subject, apart, compare_gradient, plain
from gnomon.errors import ConfigError
from gnomon.objectives import OPTIONS, advantages, objective, penalties, ratios
from gnomon.objectives.row import Objective, Ratio
from gnomon.objectives.tokens import Tokens
from gnomon.theory.exact import moments, multisets
from gnomon.theory.world import graded_reward, outcomes, world

__all__ = ["CHECKS", "conform"]

ROUNDED = 1e-3
"""What rounding may leave of a gradient that is zero, relative to a plain step."""
SCALED = 1e-5
"""Difference of a factor from 1 from which it is named."""
PROMPT = (0, 1)


def step(subject: Subject) -> Cell:
    """The gradient of one step. It decides which reading of the paper the others are held to."""
    batch = base()
    gradient = subject.step = subject.ask(batch)
    right = [(reading, subject.expect(reading, batch)) for reading in readings_of(subject.row)]
    cell = subject.cell("one step", gradient, [(reading.text, each) for reading, each in right])
    if cell.grade is Grade.PASS:
        subject.reading = next(reading for reading, _ in right if reading.text == cell.text)
        return cell
    matches = []
    for changes, reading in (variant for correct, _ in right for variant in variants(correct)):
        each = subject.expect(reading, batch)
        scale = float(gradient @ each) / float(each @ each) if each.any() else 0.0
        if scale and apart(gradient, scale * each, subject.size) <= SAME:
            matches.append((changes, abs(scale - 1) > SCALED, replace(reading, scale=scale)))
    if not matches:
        return replace(cell, text=cell.text or blemish(subject, gradient, right[0][1], cell))
    _, scaled, subject.reading = min(matches, key=lambda match: (match[0] + match[1], match[1]))
    times = f"{subject.reading.scale:.4g} times" if scaled else ""
    return replace(cell, text="; ".join(part for part in (subject.reading.text, times) if part))


def blemish(subject: Subject, gradient: Tensor, expected: Tensor, cell: Cell) -> str:
    """What else is known of a gradient that equals no reading."""
    sizes = [shape.numel() for shape in subject.policy.shapes.values()]
    parts = [torch.split(value, sizes) for value in (gradient, expected)]
    still = [name for name, ours, right in zip(subject.policy.shapes, *parts, strict=True) if right.any() > ours.any()]
    if still:
        return f"the gradient of {', '.join(still)} is 0"
    rounded = cell.error is not None and cell.error < ROUNDED
    return "the rounding of a type of 16 bits is in it" if rounded else ""


def expectation(subject: Subject) -> Cell:
    """Every group of two in a world of seven answers, each with its chance."""
    space = world(2)
    table = subject.policy.table(PROMPT, space)
    logits = table.detach()
    possible = outcomes(space, logits, graded_reward)
    members, orderings = multisets(len(space.answers), 2)
    chances = orderings * possible.chance[members].prod(dim=1)
    gradient = torch.zeros(subject.policy.size, dtype=torch.float64)
    for group, chance in zip(members.tolist(), chances.tolist(), strict=True):
        answers = [(space.answers[i], float(possible.reward[i])) for i in group]
        batch = Batch(groups=(group_of("".join(ALPHABET[i] for i in PROMPT), answers),), max_tokens=2)
        gradient += chance * subject.ask(batch)
    right = []
    for reading in readings_of(subject.row):
        mean = moments(reading.row, space, policy=logits, behavior=logits, possible=possible, group=2).mean
        right.append((reading.text, subject.policy.weighted_gradient(table, mean.reshape(table.shape))))
    cell = subject.cell("expected gradient", gradient, right)
    return replace(cell, equation=subject.row.expected_gradient)


def split(subject: Subject) -> Cell:
    """The same step in micro-batches of 6, 4 and 1 rows, against the step in one piece."""
    whole = subject.ask(base())
    for rows in (6, 4, 1):
        gradient = subject.ask(replace(base(), micro_batch=rows))
        cell = subject.cell("micro-batches", gradient, [("", whole)], [("", whole)])
        if cell.grade is Grade.FAIL:
            return replace(cell, text=f"in micro-batches of {rows}, it differs from the same step in one")
    return cell


def order(subject: Subject) -> Cell:
    """The same step with groups, and rollouts within them, in the opposite order."""
    batch = base()
    turned = replace(batch, groups=tuple(group[::-1] for group in batch.groups[::-1]))
    cell = subject.cell("order of rows", subject.ask(turned), [("", subject.ask(batch))])
    return replace(cell, text="it depends on the order of the rows") if cell.grade is Grade.FAIL else cell


def padding(subject: Subject) -> Cell:
    """Prompts of one, four and two tokens in one step."""
    groups = tuple(
        tuple(replace(row, prompt=prompt) for row in group)
        for prompt, group in zip(((0,), (0, 1, 1, 0), (1, 0)), base().groups, strict=True)
    )
    cell = compare_gradient("padding", replace(base(), groups=groups), [plain(subject)], [], subject)
    wrong = "prompts of other lengths in the step change it"
    return replace(cell, text=wrong) if cell.grade is Grade.FAIL and not cell.text else cell


def tools(subject: Subject) -> Cell:
    """Rollouts of one, two and three turns, with tokens of tools between them."""
    groups = (
        group_of("ab", [("aBBb.", 1.0), ("b.", 0.0), ("aAb.", 0.5), ("bBaAb.", 0.0)]),
        group_of("ba", [("bb.", 0.0), ("aBa.", 1.0), ("bABa.", 0.25), ("a.", 1.0)]),
    )
    reading = plain(subject)
    wrong = [
        replace(reading, mask=every, text="the tokens of tools are trained"),
        replace(reading, by_turn=True, text="advantages are normalised within each turn"),
    ]
    return compare_gradient("tokens of tools", Batch(groups=groups), [reading], wrong, subject)


def cut() -> Batch:
    """A step with two rollouts that the length limit ended, one of them right."""
    groups = (
        group_of("ab", [("a.", 1.0), ("bbabab", 0.0), ("ab.", 1.0), ("b.", 0.0)]),
        group_of("ba", [("aaabaa", 1.0), ("b.", 0.0), ("ba.", 0.5), ("bab.", 0.0)]),
    )
    return Batch(groups=groups)


def truncated_rollouts(subject: Subject) -> Cell:
    """Rollouts without an end token count like any other."""
    batch, reading = cut(), plain(subject)
    gone = subject.expect(reading, replace(batch, mask_truncated=True)) if subject.reading else None
    cell = compare_gradient("truncated", batch, [reading], [], subject)
    if cell.grade is Grade.FAIL and gone is not None and apart(subject.ask(batch), gone, subject.size) <= SAME:
        return replace(cell, text="truncated rollouts are left out of the loss")
    return cell


def overlong(subject: Subject) -> Cell:
    """DAPO's overlong filtering: rollouts without an end token are not in the loss, their rewards stay in the group."""
    reading = plain(subject)
    right = [reading, replace(reading, counted=False, text="divided by the rollouts that are left")]
    wrong = [replace(reading, masks_truncated=False, text="the option changes nothing")]
    return compare_gradient("truncated, masked", replace(cut(), mask_truncated=True), right, wrong, subject)


def alone(subject: Subject) -> Cell:
    """Groups of one rollout: there is nothing to compare it with."""
    groups = tuple(group[:1] for group in base().groups)
    reading = plain(subject)
    raw = replace(reading.row, advantage=advantages.raw)
    wrong = [replace(reading, row=raw, text="the advantage of a rollout without company is its reward")]
    return compare_gradient("groups of one", Batch(groups=groups), [reading], wrong, subject)


def equal(subject: Subject) -> Cell:
    """Groups of three equal rewards whose computed mean differs from them: 0.7 in float64, 0.9 in float32."""
    rewards = (0.1, 0.7, 0.9)
    groups = tuple(
        tuple(replace(row, reward=reward) for row in group[:3])
        for reward, group in zip(rewards, base().groups, strict=True)
    )
    cell = compare_gradient("equal rewards", Batch(groups=groups), [plain(subject)], [], subject)
    if cell.error is None or cell.error > ROUNDED:
        wrong = "the rounding of equal rewards is divided by a deviation of nearly 0"
        return replace(cell, text=wrong) if cell.grade is Grade.FAIL and not cell.text else cell
    return replace(cell, grade=Grade.PASS, text="" if cell.error <= SAME else f"up to {cell.error:.0e} of a plain step")


def failed_verifier(subject: Subject) -> Cell:
    """A verifier failed on one rollout of a group. No paper has it: it must not count as a wrong answer."""
    first, *others = base().groups
    batch = replace(base(), groups=((*first[:2], replace(first[2], reward=None), first[3]), *others))
    reading = plain(subject)
    right = [
        replace(reading, text="left out of its group"),
        replace(reading, counted=False, text="left out of its group and of the number of rollouts"),
        replace(reading, longer=True, text="left out of its group; the divisor has its tokens"),
        replace(reading, whole_groups=True, text="its group is left out"),
        replace(reading, whole_groups=True, counted=False, text="its group is left out of the step"),
    ]
    wrong = [replace(reading, failed=0.0, text="a failed rollout counts as reward 0")]
    return compare_gradient("failed rollout", batch, right, wrong, subject)


def reversed_k3(tokens: Tokens) -> Tensor:
    """κ of e^l − 1 − l, the estimate with the two policies exchanged."""
    return 1 - tokens.log_divergence.exp()


def k1_in_loss(tokens: Tokens) -> Tensor:
    return -torch.ones_like(tokens.logp)


def k3_by_rollout(tokens: Tokens) -> Tensor:
    """κ of the k3 of each token under the geometric mean of the ratios of its rollout, both differentiated."""
    apart = tokens.log_divergence
    mean = tokens.per_sequence((-apart).expm1() + apart) / tokens.lengths
    return (-apart).expm1() - mean


def nothing(tokens: Tokens) -> Tensor:
    return torch.zeros_like(tokens.logp)


def kl(subject: Subject) -> Cell:
    """A penalty of 0.1 toward another model, by one of the estimates that descend a KL."""
    reading = plain(subject)
    right = [
        replace(reading, text="k3 in the loss"),
        replace(reading, penalty=penalties.k2, text="k2, or k3 under the ratio, in the loss"),
        replace(reading, penalised_reward=True, text="k1 in the reward"),
    ]
    wrong = [
        replace(reading, penalty=reversed_k3, text="the two policies of the penalty are exchanged"),
        replace(reading, penalty=k1_in_loss, text="k1 in the loss, whose expected gradient is 0"),
        replace(reading, penalty=k3_by_rollout, text="k3 under the ratio of the whole rollout, which descends no KL"),
        replace(reading, penalty=nothing, text="the option changes nothing"),
    ]
    return compare_gradient("KL penalty", replace(base(), kl=0.1), right, wrong, subject)


def clip(subject: Subject) -> Cell:
    """Ratios of 0.001 within and beyond both edges, for advantages of both signs."""
    reading = plain(subject)
    if reading.row.ratio is ratios.no_ratio:
        raise Refused("the row has no ratio")
    options = {name: option.default for name, option in OPTIONS[subject.row.name].options.items()}
    low, high = float(options.get("clip_low", 0.2)), float(options.get("clip_high", 0.2))
    narrow = min(low, high) / 200
    edges = [1 + high - narrow, 1 + high + narrow, 1 - low + narrow, 1 - low - narrow]

    def move(row: Row, ratio: float) -> Row:
        old = subject.policy.logp(row) - torch.tensor(ratio, dtype=torch.float64).log()
        return replace(row, behavior_logp=tuple(old.tolist()))

    groups = tuple(
        tuple(move(row, edges[(index + shift) % 4]) for index, row in enumerate(group))
        for shift, group in enumerate(base().groups)
    )
    changed: dict[str, Ratio] = {
        "the ratio is not clipped": ratios.unclipped,
        "the ratio has no gradient": ratios.no_ratio,
        "the clipped ratio is used alone, without the minimum": partial(band, low=low, high=high),
        "the two sides of the clip are exchanged": partial(ratios.ppo_clip, low=high, high=low),
        "the ratio is clipped from below too": partial(clamped_ratio, low=low, high=high),
    }
    wrong = [replace(reading, row=replace(reading.row, ratio=ratio), text=text) for text, ratio in changed.items()]
    return compare_gradient("clip edges", replace(base(), groups=groups), [reading], wrong, subject)


def band(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """The ratio within the band and zero outside, whatever the sign of the advantage."""
    ratio = tokens.log_ratio.exp()
    return torch.where((ratio > 1 - low) & (ratio < 1 + high), ratio, torch.zeros_like(ratio))


def clamped_ratio(tokens: Tokens, *, low: float, high: float) -> Tensor:
    """The ratio, at the ends of the band where it is outside."""
    return tokens.log_ratio.exp().clamp(1 - low, 1 + high)


def warm(subject: Subject) -> Cell:
    """Completions that were sampled at temperature 0.7."""
    reading = plain(subject)
    wrong = [replace(reading, temperature=False, text="logits are not divided by the temperature")]
    return compare_gradient("temperature", replace(base(), temperature=0.7), [reading], wrong, subject)


CHECKS: dict[str, Callable[[Subject], Cell]] = {
    "one step": step,
    "expected gradient": expectation,
    "micro-batches": split,
    "order of rows": order,
    "padding": padding,
    "tokens of tools": tools,
    "truncated": truncated_rollouts,
    "truncated, masked": overlong,
    "groups of one": alone,
    "equal rewards": equal,
    "failed rollout": failed_verifier,
    "KL penalty": kl,
    "clip edges": clip,
    "temperature": warm,
}


def row_of(name: str) -> Objective:
    try:
        row = objective(name)
        readings_of(row)
    except ValueError as error:
        fix = "name rows that exist in OBJECTIVES of the trainer's file, such as grpo"
        raise ConfigError("E096", f"{name} cannot be tested", why=str(error), fix=fix) from None
    return row


def conform(trainer: Trainer, names: Sequence[str] = ()) -> list[Cell]:
    """Every check of every objective.

    Args: names, what the trainer calls its objectives; by default all that it lists.
    Raises: ConfigError for a name that no row has, or a row that needs more than rewards and log-probabilities.
    """
    rows = {name: row_of(trainer.objectives.get(name, name)) for name in names or trainer.objectives}
    if not rows:
        raise ConfigError(
            "E096", "the trainer lists no objectives", why="the file has no OBJECTIVES, and the command names none",
            fix="gnomon conform file.py:gradient grpo",
        )  # fmt: skip
    policy, reference = policies()
    cells = []
    for name, row in rows.items():
        subject = Subject(trainer=trainer, name=name, row=row, policy=policy, reference=reference)
        for check, judge in CHECKS.items():
            try:
                cells.append(judge(subject))
            except Refused as why:
                cells.append(Cell(objective=name, check=check, grade=Grade.REFUSED, text=str(why)))
    return cells
