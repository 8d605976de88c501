"""Rows of the table on the policy that ships: sampled gradients against what enumeration says they are on average.

    python benchmarks/audit.py                # 4000 groups of 4 rollouts of up to 2 tokens, half a minute

The engine samples groups of the shipped policy. Of up to two tokens it has some ten thousand answers, so the declared
expectation is a finite sum. Both are projected on a few directions in the space of all weights, the gradient of the
success rate and random ones: 0.8 million numbers become four. A row passes if the mean over groups lies within 4
standard errors of its expectation on each direction, and if the learner's own backward pass over a step of 32 groups
agrees with the looked-up scores to 1e-4 (float32 against double precision leaves about 1e-6).
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import math
import sys
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.engines import sample_all
from gnomon.engines.embedded import Embedded
from gnomon.keys import Key
from gnomon.learners.batch import Batch
from gnomon.learners.credit import Crediting
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.projection import logp_of
from gnomon.models.scoring import pack_rows
from gnomon.objectives import TABLE, ClosedForm, Objective, Reach, Seen, Tokens, TokenShape, objective, terminal
from gnomon.rollout.packing import pack
from gnomon.theory import count_weight
from gnomon.types import (
    Completion,
    Finish,
    Group,
    Message,
    Part,
    Request,
    Rollout,
    Sampling,
    Status,
    Stop,
    Task,
    Turn,
    Verdict,
)

PROMPT = 'How many "o" in "ygdboo"?\n<answer>'
SAMPLING = Sampling(max_tokens=2, temperature=2.0, stop=("0", "g"))
"""Answers of one token and of two are both common, and no token is nearly certain."""
STEP = 1e-4
"""Half the distance between the two policies that a score is a difference of, along a direction of length one."""
RANDOM = 3
"""Directions beside the gradient of the success rate."""


def earned(ids: tuple[int, ...]) -> float:
    """The reward looks at every token: one where three divides the sum of the ids."""
    return float(sum(ids) % 3 == 0)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Every answer of the policy to the prompt, with its chance and the projections of its score."""

    chance: Tensor
    """[Y]"""
    reward: Tensor
    """[Y]"""
    length: Tensor
    """[Y]"""
    score: Tensor
    """[Y, directions] of ∇log π(y)."""
    first: Tensor
    """[vocabulary, directions] of the score of a first token."""
    second: Tensor
    """[vocabulary, vocabulary, directions] of the score of a second token after each first one."""


def prompt_ids(policy: Policy) -> tuple[int, ...]:
    begin = () if policy.tokenizer.bos is None else (policy.tokenizer.bos,)
    return begin + policy.tokenizer.encode(PROMPT)


def ends(policy: Policy, token: int) -> bool:
    """Whether an answer is over with this token, whatever the limit."""
    piece = policy.tokenizer.decode([token])
    return token in policy.tokenizer.eos or any(text in piece for text in SAMPLING.stop)


def next_logp(policy: Policy) -> tuple[Tensor, Tensor]:
    """[V] log-probability of each first token, and [V, V] of each second one after it."""
    rows = [(0, (token, 0)) for token in range(policy.vocabulary)]
    hidden = policy.states(pack_rows(policy, [prompt_ids(policy)], rows))
    logp = logp_of(policy.logits(hidden), SAMPLING.temperature)
    return logp[0], logp[1::2]


def enumerate_answers(along: list[dict[str, Tensor]]) -> Answers:
    """All answers in double precision; scores are central differences along each direction."""
    policy = Policy.load("tiny", Precision.only(torch.float64))
    with torch.inference_mode():
        first, second = next_logp(policy)
    here = {name: parameter.detach().clone() for name, parameter in policy.state().items()}
    slopes: list[tuple[Tensor, Tensor]] = []
    for direction in along:
        sides = []
        for sign in (1, -1):
            policy.update({name: value + sign * STEP * direction[name] for name, value in here.items()})
            with torch.inference_mode():
                sides.append(next_logp(policy))
        slopes.append(((sides[0][0] - sides[1][0]) / (2 * STEP), (sides[0][1] - sides[1][1]) / (2 * STEP)))
    by_first, by_second = (torch.stack([slope[part] for slope in slopes], dim=-1) for part in (0, 1))
    chance, reward, length, score = [], [], [], []
    for token in range(policy.vocabulary):
        if ends(policy, token):
            chance, reward = [*chance, first[token][None]], [*reward, earned((token,))]
            length, score = [*length, 1], [*score, by_first[token][None]]
            continue
        chance.append(first[token] + second[token])
        score.append(by_first[token] + by_second[token])
        reward += [earned((token, after)) for after in range(policy.vocabulary)]
        length += [2] * policy.vocabulary
    return Answers(
        chance=torch.cat(chance).exp(),
        reward=torch.tensor(reward, dtype=torch.float64),
        length=torch.tensor(length),
        score=torch.cat(score),
        first=by_first,
        second=by_second,
    )


def directions(seed: int) -> list[dict[str, Tensor]]:
    """Directions of length one over all weights: the gradient of the success rate, then random ones."""
    policy = Policy.load("tiny", Precision.only(torch.float64))
    state, source = policy.state(), torch.Generator().manual_seed(seed)
    success(policy).backward()  # type: ignore[no-untyped-call]
    found = [{name: value.grad for name, value in state.items() if value.grad is not None}]
    found += [
        {name: torch.randn(value.shape, generator=source, dtype=torch.float64) for name, value in state.items()}
        for _ in range(RANDOM)
    ]
    sizes = [math.sqrt(sum(float(part.square().sum()) for part in one.values())) for one in found]
    return [{name: part / size for name, part in one.items()} for one, size in zip(found, sizes, strict=True)]


def success(policy: Policy) -> Tensor:
    """The expected reward, summed over every answer."""
    first, second = next_logp(policy)
    total = first.new_zeros(())
    for token in range(policy.vocabulary):
        if ends(policy, token):
            total = total + earned((token,)) * first[token].exp()
        else:
            rewards = first.new_tensor([earned((token, after)) for after in range(policy.vocabulary)])
            total = total + first[token].exp() * (second[token].exp() @ rewards)
    return total


def plain(reward: float, length: int) -> Seen:
    """A rollout of which nothing else is known."""
    return Seen(reward=reward, length=length, answer=0, early=(), values=(), logp=(), reference=())


def expected(row: Objective, answers: Answers, group: int) -> Tensor:
    """[directions] what the row's target declares, summed over every answer."""
    chances: dict[tuple[float, int], float] = {}
    kinds = list(zip(answers.reward.tolist(), answers.length.tolist(), strict=True))
    for kind, chance in zip(kinds, answers.chance.tolist(), strict=True):
        chances[kind] = chances.get(kind, 0.0) + chance
    law = [(reward, length, chance) for (reward, length), chance in chances.items()]
    assert not isinstance(row.target, TokenShape)
    if isinstance(row.target, ClosedForm):
        closed = row.target.shape(
            [(plain(*kind), chance) for kind, chance in chances.items()], group, SAMPLING.max_tokens
        )
        assert closed is not None
        shape = {kind: closed(plain(*kind))[0] for kind in chances}
    else:
        shape = {kind: row.target.shape(*kind, law, group, SAMPLING.max_tokens) for kind in chances}
    weight = torch.tensor([shape[kind] for kind in kinds], dtype=torch.float64)
    return (weight * answers.chance) @ answers.score


def sample(engine: Embedded, groups: int, group: int, seed: int) -> list[Group]:
    """Groups of one prompt, as an actor would hand them on."""
    key, prompt = Key(seed), prompt_ids(engine.policy)
    requests = [
        Request(prompt_ids=prompt, key=key.at("audit", group=g, sample=i).bytes, sampling=SAMPLING)
        for g in range(groups)
        for i in range(group)
    ]
    found = asyncio.run(sample_all(engine, requests))
    task = Task(id="audit", messages=(Message(role="user", content=PROMPT),), answer=None)
    return [
        Group(
            task=task,
            index=g,
            rollouts=tuple(rollout(task, prompt, i, found[g * group + i]) for i in range(group)),
        )
        for g in range(groups)
    ]


def rollout(task: Task, prompt: tuple[int, ...], place: int, completion: Completion) -> Rollout:
    reward = earned(completion.token_ids)
    return Rollout(
        task=task,
        sample=place,
        turns=(Turn(prompt_ids=prompt, completion=completion),),
        verdict=Verdict(status=Status.CORRECT if reward else Status.WRONG, parts=(Part(name="sum", value=reward),)),
        stop=Stop.TRUNCATED if completion.finish is Finish.LENGTH else Stop.DONE,
    )


def token_scores(batch: Batch, answers: Answers) -> Tensor:
    """[T, directions] the score of every token of a batch, looked up."""
    found = [
        answers.second[reply[0], token] if place else answers.first[token]
        for reply in (sequence.targets.tolist() for sequence in batch.sequences)
        for place, token in enumerate(reply)
    ]
    return torch.stack(found)


def tokens_of(batch: Batch, row: Objective) -> Tokens:
    """The batch as the row sees it, before any update."""
    logp, advantage = batch.behavior_logp, row.credits(batch.rollouts)
    return Tokens(logp=logp, behavior_logp=logp, advantage=advantage, sequence=batch.rollout, group=batch.group)


def per_group(row: Objective, batch: Batch, scores: Tensor) -> Tensor:
    """[groups, directions] the projected gradient of every group, each a step of its own."""
    tokens, totals = tokens_of(batch, row), torch.tensor(batch.denominators.group_tokens)
    size = batch.denominators.sequences // batch.denominators.groups
    kappa = torch.zeros_like(tokens.logp)
    for total in set(totals.tolist()):
        part = totals[tokens.group] == total
        sizes = replace(batch.denominators, groups=1, sequences=size, tokens=total)
        mine = Tokens(
            logp=tokens.logp[part],
            behavior_logp=tokens.behavior_logp[part],
            advantage=tokens.advantage[part],
            sequence=tokens.sequence[part],
            group=tokens.group[part],
        )
        kappa[part] = row.coefficients(mine, sizes)
    gradient = torch.zeros(len(totals), scores.shape[1], dtype=torch.float64)
    return gradient.index_add_(0, tokens.group, kappa[:, None] * scores)


def learned(learner: LocalLearner, row: Objective, batch: Batch, along: list[dict[str, Tensor]]) -> Tensor:
    """[directions] the gradient of a whole step as the learner's backward pass leaves it, projected."""
    for parameter in learner.parameters.values():
        parameter.grad = None
    learner.forward_backward(Crediting(row)(batch, learner), row)
    gradients = {name: parameter.grad for name, parameter in learner.parameters.items()}
    found = [
        sum(-float((g.double() * one[name]).sum()) for name, g in gradients.items() if g is not None and name in one)
        for one in along
    ]
    return torch.tensor(found, dtype=torch.float64)


def pairs(row: Objective) -> bool:
    """Whether a row looks at the log-probabilities of two rollouts."""
    return row.reach is Reach.GROUP or (row.reach is Reach.STEP and isinstance(row.target, ClosedForm))


def audited() -> dict[str, Objective]:
    """The rows whose target looks at rewards and lengths alone, and whose credit comes at the end."""
    rows = {name: objective(name) for name in sorted(TABLE)}
    return {
        name: row
        for name, row in rows.items()
        if row.credit is terminal and not isinstance(row.target, TokenShape) and not row.asks and not pairs(row)
    }


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the audit says of a row."""

    name: str
    counts: bool
    """Whether it is a count row: w(p)·∇p in any world."""
    off: float
    """Largest distance from the expectation on a direction, in standard errors."""
    noise: float
    """Standard error along the gradient of the success rate, relative to the expectation there."""
    gap: float | None
    """Largest distance of the learner's gradient from the looked-up one, relative to its norm. None: not run."""


@functools.cache
def prepared(seed: int) -> tuple[list[dict[str, Tensor]], Answers]:
    """Directions, and every answer projected on them."""
    along = directions(seed)
    return along, enumerate_answers(along)


def audit(rows: dict[str, Objective], *, groups: int, seed: int = 0, backward: bool = True) -> list[Finding]:
    """Hold rows against their expectations, all on the same rollouts; with `backward`, the learner too."""
    (along, answers), engine = prepared(seed), Embedded(Policy.load("tiny"))
    learner = LocalLearner(Policy.load("tiny"))
    found = []
    for size in sorted({max(4, row.min_group) for row in rows.values()}):
        sampled = sample(engine, groups, size, seed)
        whole, few = (pack(part, sampling=SAMPLING, exact=True) for part in (sampled, sampled[:32]))
        scores, few_scores = token_scores(whole, answers), token_scores(few, answers)
        for name, row in rows.items():
            if max(4, row.min_group) != size:
                continue
            gradient, claim = per_group(row, whole, scores), expected(row, answers, size)
            error = gradient.std(dim=0) / math.sqrt(groups)
            gap = None
            if backward:
                looked_up = row.coefficients(tokens_of(few, row), few.denominators) @ few_scores
                gap = float((learned(learner, row, few, along) - looked_up).abs().max() / looked_up.norm())
            found.append(
                Finding(
                    name=name,
                    counts=count_weight(row, size) is not None,
                    off=float(((gradient.mean(dim=0) - claim) / error).abs().max()),
                    noise=float(error[0] / claim[0].abs()),
                    gap=gap,
                )
            )
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--groups", type=int, default=4000)
    arguments.add_argument("--seed", type=int, default=0)
    chosen = arguments.parse_args()
    began = time.monotonic()
    found = audit(audited(), groups=chosen.groups, seed=chosen.seed)
    answers = prepared(chosen.seed)[1]
    print(
        f"{len(answers.chance)} answers, right with chance {float(answers.chance @ answers.reward):.3f}, "
        f"of one token with chance {float(answers.chance @ (answers.length == 1).double()):.3f}"
    )
    for finding in found:
        print(
            f"{finding.name:<20} {'count row' if finding.counts else '':<10} off by {finding.off:4.2f} standard errors"
            f" of {finding.noise:5.1%}   learner within {finding.gap:.1e}"
        )
    failed = [finding.name for finding in found if finding.off > 4 or (finding.gap or 0) > 1e-4]
    print(f"{len(found)} rows, {chosen.groups} groups, {time.monotonic() - began:.0f} s; failed: {failed or 'none'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
