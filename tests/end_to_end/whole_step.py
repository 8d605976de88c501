"""The gradient of an optimiser step in plain code: all its tokens at once, no micro-batch, nothing of a learner."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from gnomon.objectives import Denominators, Objective, Rollouts, Tokens
from gnomon.types import Finish, Group, Rollout, Stop, Turn

CAUSES = {Stop.TRUNCATED: 1, Stop.TURNS: 2, Stop.CONTEXT: 2, Stop.TIME: 2}
"""What ended a rollout: 1 the token limit of its last reply, 2 a limit between two turns."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A turn: what was before it, and its own tokens."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    behavior: tuple[float, ...]
    """Log-probabilities that the sampler reported; NaN for what was given."""
    fork: int
    """How often history was rewritten before it."""
    heard: tuple[tuple[int, int], ...] = ()
    """Where in the prompt the messages stand that came after the turn before: first token and end."""


def text_of(turn: Turn) -> Text:
    reply = turn.completion
    return Text(prompt=turn.prompt_ids, reply=reply.token_ids, behavior=reply.logprobs, fork=turn.fork)


def text_after(turn: Turn, encode: Callable[[str], Sequence[int]]) -> Text:
    """A turn with the places of its messages, in plain text: a line break stands behind each."""
    heard, end = [], len(turn.prompt_ids)
    for message in reversed(turn.messages):
        start = end - 1 - len(encode(message.content))
        heard.append((start, end - 1))
        end = start
    return replace(text_of(turn), heard=tuple(heard))


def observed(texts: Sequence[Text]) -> list[Text]:
    """What the environment wrote after the first turn of a rollout and before a reply of the policy, as replies.

    Behind the last reply of a conversation nothing is read.
    """
    found = []
    for place, text in enumerate(texts):
        later = [other for other in texts[place:] if other.fork == text.fork and other.reply]
        for start, end in text.heard if place and later else ():
            found.append(replace(text, prompt=text.prompt[:start], reply=text.prompt[start:end], behavior=(), heard=()))
    return found


@dataclass(frozen=True, kw_only=True)
class Model:
    """A copy of weights, read by plain autograd: [R, L] tokens, padded at the end, to hidden states."""

    hidden: Callable[[Tensor], Tensor]
    parameters: dict[str, Tensor]
    head: Tensor

    def states(self, texts: Sequence[Text]) -> Tensor:
        """[T, size] the hidden state before every token of the replies."""
        if not texts:
            return torch.zeros(0, self.head.shape[1], dtype=self.head.dtype)
        longest = max(len(text.prompt) + len(text.reply) for text in texts)
        ids = torch.zeros(len(texts), longest, dtype=torch.int64)
        for place, text in enumerate(texts):
            whole = text.prompt + text.reply
            ids[place, : len(whole)] = torch.tensor(whole)
        found = self.hidden(ids)
        parts = [
            found[place, len(text.prompt) - 1 : len(text.prompt) + len(text.reply) - 1]
            for place, text in enumerate(texts)
        ]
        return torch.cat(parts)

    def last_states(self, rollouts: Sequence[Sequence[Text]]) -> Tensor:
        """[R, size] the hidden state after the last token of each rollout; zero where it has none."""
        found = torch.zeros(len(rollouts), self.head.shape[1], dtype=self.head.dtype)
        for place, texts in enumerate(rollouts):
            if said := [text for text in texts if text.reply]:
                found[place] = self.hidden(torch.tensor([said[-1].prompt + said[-1].reply]))[0, -1]
        return found

    def distributions(self, texts: Sequence[Text], temperature: float) -> Tensor:
        """[T, V] log-probabilities of every token that could have stood in the replies."""
        return torch.log_softmax(self.states(texts) @ self.head.T / temperature, -1)

    def logp(self, texts: Sequence[Text], temperature: float) -> Tensor:
        """[T] of the tokens that stand there."""
        chosen = torch.tensor([token for text in texts for token in text.reply])
        return self.distributions(texts, temperature).gather(1, chosen[:, None])[:, 0]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The rollouts of a step as they were collected, and how they are compared."""

    groups: Sequence[Group]
    shared: bool
    """Whether the players of a task are one group."""
    temperature: float
    max_tokens: int
    reply_tokens: int
    """Most tokens of a reply."""
    visits: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Earlier visits of every task, and the mean and variance of rewards over them."""
    past: float = 0.0
    """What the past expects of every rollout."""
    encode: Callable[[str], Sequence[int]] = str.encode
    """Of a message's text, as it was said."""

    @property
    def merged(self) -> list[list[Group]]:
        """What is compared with each other."""
        if not self.shared:
            return [[group] for group in self.groups]
        return [list(same) for _, same in groupby(self.groups, key=lambda group: group.index)]

    @property
    def texts(self) -> list[list[Text]]:
        """Every rollout, turn by turn."""
        return [
            [text_after(turn, self.encode) for turn in rollout.turns]
            for group in self.groups
            for rollout in group.rollouts
        ]

    @property
    def spoken(self) -> list[Text]:
        """All turns, end to end."""
        return [text for texts in self.texts for text in texts]

    def rollouts(self, **known: Tensor) -> Rollouts:
        """What credit may look at. Args: known: [T], or a table of rewards by segment."""
        merged = [[rollout for group in same for rollout in group.rollouts] for same in self.merged]
        names: dict[tuple[int, int, object], int] = {}
        answers = [
            [names.setdefault((place, r.player, r.verdict.extracted), len(names)) for r in rollouts]
            for place, rollouts in enumerate(merged)
        ]
        reported = [[x for turn in r.turns for x in turn.completion.logprobs] for rollouts in merged for r in rollouts]
        rewards = torch.tensor([[r.reward for r in rollouts] for rollouts in merged], dtype=torch.float64)
        return Rollouts(
            rewards=rewards,
            lengths=torch.tensor([[r.tokens for r in rollouts] for rollouts in merged]),
            answers=torch.tensor(answers),
            baseline=torch.full_like(rewards, self.past),
            visits=torch.tensor(self.visits, dtype=torch.float64).expand(*rewards.shape, 3),
            greedy=torch.tensor(
                [[of.greedy.reward for of in same for _ in of.rollouts] for same in self.merged]
            ).double(),
            player=torch.tensor([[r.player for r in rollouts] for rollouts in merged]),
            parts=torch.tensor([[self.parts(r, "value") for r in rollouts] for rollouts in merged]).double(),
            part_weights=torch.tensor([[self.parts(r, "weight") for r in rollouts] for rollouts in merged]).double(),
            ended=torch.tensor([[CAUSES.get(r.stop, 0) for r in rollouts] for rollouts in merged]),
            longest=torch.tensor([[self.longest(r) for r in rollouts] for rollouts in merged]),
            finished=torch.tensor(
                [[r.stop not in (Stop.TRUNCATED, Stop.CONTEXT) for r in rollouts] for rollouts in merged]
            ),
            demonstrated=torch.tensor([bool(x) and all(map(math.isnan, x)) for x in reported]).reshape(rewards.shape),
            observation=torch.tensor(self.observations(), dtype=torch.int64),
            segment=torch.tensor([part for texts in self.texts for part in segments(texts)], dtype=torch.int64),
            **known,
        )

    def observations(self) -> list[int]:
        """Of every token, which of the different messages before a turn its turn replies to."""
        turns = [turn for group in self.groups for rollout in group.rollouts for turn in rollout.turns]
        known = sorted({tuple(message.content for message in turn.messages) for turn in turns})
        return [
            known.index(tuple(m.content for m in turn.messages)) for turn in turns for _ in turn.completion.token_ids
        ]

    @staticmethod
    def parts(rollout: Rollout, name: str) -> list[float]:
        """Of each part of its reward, by name."""
        return [getattr(part, name) for part in sorted(rollout.verdict.parts, key=lambda part: part.name)]

    def longest(self, rollout: Rollout) -> int:
        """Tokens of its longest reply, where one that was cut off counts as full."""
        found = [turn.completion for turn in rollout.turns]
        cut = any(completion.finish is Finish.LENGTH for completion in found)
        return self.reply_tokens if cut else max((len(completion.token_ids) for completion in found), default=0)

    def of_rollouts(self) -> tuple[Tensor, Tensor]:
        """[T] the rollout of every token, and what it is compared in."""
        sizes = torch.tensor([sum(len(text.reply) for text in texts) for texts in self.texts])
        sequence = torch.arange(len(sizes)).repeat_interleave(sizes)
        return sequence, torch.tensor(self.places)[sequence]

    @property
    def places(self) -> list[int]:
        """What every rollout is compared in."""
        return [place for place, same in enumerate(self.merged) for group in same for _ in group.rollouts]

    def tokens(self, row: Objective, credit: Tensor, logp: Tensor, began: Tensor | None, **known: Tensor) -> Tokens:
        """All tokens of the step. Args: began: [T] log-probabilities as it began; None: the policy is there still."""
        reported = torch.tensor([x for text in self.spoken for x in text.behavior], dtype=torch.float64)
        sequence, group = self.of_rollouts()
        shown = self.rollouts().demonstrated
        assert shown is not None
        return Tokens(
            logp=logp,
            behavior_logp=torch.where(reported.isnan(), logp if began is None else began, reported),
            proximal_logp=logp if began is None and row.corrects else began,
            advantage=credit,
            sequence=sequence,
            group=group,
            demonstrated=shown.flatten()[sequence],
            right=torch.tensor([r.reward for same in self.merged for group in same for r in group.rollouts])[sequence]
            >= 1,
            **known,
        )

    def sizes(self, chosen: set[int]) -> Denominators:
        """Of an optimiser step over some of what is compared."""
        counts = [sum(rollout.tokens for group in same for rollout in group.rollouts) for same in self.merged]
        return Denominators(
            groups=len(chosen),
            sequences=sum(len(group.rollouts) for place in chosen for group in self.merged[place]),
            tokens=sum(counts[place] for place in chosen),
            max_tokens=self.max_tokens,
            group_tokens=tuple(counts),
        )


def segments(texts: Sequence[Text]) -> list[int]:
    """A new one where a turn begins, and where what is given begins or ends."""
    found, last, now = [], None, -1
    for turn, text in enumerate(texts):
        for logp in text.behavior:
            now += (turn, math.isnan(logp)) != last
            last = (turn, math.isnan(logp))
            found.append(now)
    return found


def some(tokens: Tokens, chosen: Tensor) -> Tokens:
    """The tokens of a mask."""
    names = (
        "logp",
        "behavior_logp",
        "advantage",
        "sequence",
        "group",
        "proximal_logp",
        "reference_logp",
        "demonstrated",
        "right",
    )
    values = {name: getattr(tokens, name) for name in names}
    return Tokens(**{name: None if value is None else value[chosen] for name, value in values.items()})


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is maximised beside the objective."""

    entropy: float = 0.0
    full_kl: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a learner should find."""

    gradient: Tensor
    clipped: float
    """Share of the trained tokens whose credit the ratio took away."""
    trained: int


def expected(
    step: Step,
    row: Objective,
    credit: Tensor,
    *,
    policy: Model,
    reference: Model | None,
    began: Tensor | None,
    chosen: set[int],
    terms: Terms,
) -> Expected:
    """The gradient of the loss over some of what is compared, from all of their tokens together."""
    texts, temperature = step.spoken, step.temperature
    whole = policy.distributions(texts, temperature)
    logp = whole.gather(1, torch.tensor([token for text in texts for token in text.reply])[:, None])[:, 0]
    known = {}
    if row.needs_reference:
        assert reference is not None
        known["reference_logp"] = reference.logp(texts, temperature).detach()
    tokens = step.tokens(row, credit, logp.detach(), began, **known)
    here = torch.tensor([group in chosen for group in tokens.group.tolist()], dtype=torch.bool)
    tokens, sizes = some(tokens, here), step.sizes(chosen)
    total = (row.coefficients(tokens, sizes) * logp[here]).sum()
    weight = row.aggregate(tokens, sizes)
    total = total + terms.entropy * (weight * -(whole.exp() * whole).sum(-1)[here]).sum()
    if terms.full_kl:
        assert reference is not None
        apart = (whole.exp() * (whole - reference.distributions(texts, temperature).detach())).sum(-1)
        total = total - terms.full_kl * (weight * apart[here]).sum()
    seen = [part for part, place in zip(step.texts, step.places, strict=True) if place in chosen]
    if row.observation and (said := [text for texts in seen for text in observed(texts)]):
        total = total + row.observation * policy.logp(said, temperature).mean()
    found = torch.autograd.grad(-total, list(policy.parameters.values()), allow_unused=True, materialize_grads=True)
    moving = trained(step, row, credit, here, everything=row.penalty is not None or terms != Terms())
    lost = (row.ratio(tokens) == 0) & (tokens.advantage != 0)
    return Expected(
        gradient=torch.cat([value.flatten() for value in found]),
        clipped=float(lost[moving[here]].double().mean()) if moving[here].any() else math.nan,
        trained=int(moving.sum()),
    )


def trained(step: Step, row: Objective, credit: Tensor, here: Tensor, *, everything: bool) -> Tensor:
    """[T] which tokens have a gradient: those of a conversation with any credit or observation, or all."""
    sizes, watched = [], []
    for texts in step.texts:
        known = observed(texts) if row.observation else []
        for fork, part in groupby(texts, key=lambda text: text.fork):
            sizes.append(sum(len(text.reply) for text in part))
            watched.append(everything or any(text.fork == fork for text in known))
    moves = [
        torch.full_like(part, moves or bool(part.any()), dtype=torch.bool)
        for part, moves in zip(credit.split(sizes), watched, strict=True)
    ]
    return torch.cat([here[:0], *moves]) & here


def copied(model: torch.nn.Module) -> torch.nn.Module:
    """A model with weights of its own and no gradients."""
    again = copy.deepcopy(model)
    again.zero_grad()
    return again
