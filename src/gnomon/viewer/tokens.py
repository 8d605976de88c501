"""A rollout's tokens and what is known of each: who wrote it, at which probability, with what advantage."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from gnomon.config import leaves
from gnomon.errors import GnomonError
from gnomon.models.folder import present_folder
from gnomon.models.hub import at_commits
from gnomon.store import Record, RunReader
from gnomon.store.codec import floats_of, rollout_of
from gnomon.terminal import printable
from gnomon.types import Segment

if TYPE_CHECKING:
    from gnomon.models.tokenizer import Tokenizer

__all__ = ["CHANNELS", "Token", "absent", "legend", "spans", "tokenizer_of", "turn_tokens"]

SHADES = 10
"""Classes of probability: class n holds tokens of probability n/SHADES up to (n + 1)/SHADES."""
LEVELS = 5
"""Classes of a number on either side of zero."""
FULL_ENTROPY = 2.0
"""Nats from which the colour is the darkest."""
FULL_DIFFERENCE = 0.1
"""Nats between learner and sampler from which the colour is the darkest."""
MOST = 8000
"""Tokens of a turn that are shown one by one."""
CHANNELS = {
    "probability": "the probability at which each token was sampled",
    "advantage": "the advantage with which each token was trained",
    "difference": "the learner's log-probability less the sampler's, before the update",
    "entropy": "the entropy of the distribution that each token was sampled from",
    "origin": "who wrote each token, with the prompt and the observations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token. What is not known of it is None."""

    text: str
    id: int
    origin: str
    """`sampled`, `prefilled`, or who wrote a part of the prompt or an observation."""
    logp: float | None = None
    advantage: float | None = None
    difference: float | None = None
    """The learner's log-probability less the sampler's, in nats."""
    entropy: float | None = None
    """Of the distribution that it was sampled from, in nats."""


@lru_cache(maxsize=8)
def load_tokenizer(path: str) -> Tokenizer | None:
    from gnomon.models.tokenizer import Tokenizer

    try:
        return Tokenizer(present_folder(path))
    except (GnomonError, OSError):
        return None


def tokenizer_of(reader: RunReader) -> Tokenizer | None:
    """The tokenizer of a run's policy; None where its folder is not there any more, and for an imported run, whose
    recipe names none."""
    settings = tomllib.loads(reader.recipe)
    if "imported" in settings:
        return None
    return load_tokenizer(str(at_commits(leaves(settings), reader.manifest.get("hub")).get("policy.path", "tiny")))


def turn_tokens(task_record: Record, record: Record, tokenizer: Tokenizer | None, tier: str) -> list[list[Token]]:
    """The tokens of each turn: what is new in its prompt, and then its reply.

    Args: task_record: of the rollout; tier: of the run. An exact one has checked in every step that
        sampler and learner are equal in every bit.
    """
    body, turns = record.body, rollout_of(task_record, record).turns
    logps = [logp for turn in turns for logp in turn.completion.logprobs]
    advantages: Sequence[float | None] = recorded_floats(body, "advantages") or [body.get("advantage")] * len(logps)
    entropies: Sequence[float | None] = recorded_floats(body, "entropy") or [None] * len(logps)
    per_token = iter(zip(advantages, differences(body, logps, tier), entropies, strict=True))
    result = []
    for turn in turns:
        reply = zip(turn.completion.token_ids, turn.completion.logprobs, per_token, strict=False)
        result.append([*prompt(turn.segments, tokenizer), *islice(reply_tokens(list(reply), tokenizer), MOST)])
    return result


def recorded_floats(body: Mapping[str, Any], name: str) -> list[float]:
    return floats_of(body, name) if name in body else []


def differences(body: Mapping[str, Any], logps: Sequence[float], tier: str) -> Sequence[float | None]:
    """Per token, where the run has both log-probabilities of it or has checked that they are equal."""
    if learner := recorded_floats(body, "proximal_logp"):
        pairs = zip(learner, logps, strict=True)
        return [None if math.isnan(sampler) else policy - sampler for policy, sampler in pairs]
    checked = tier == "exact" and "advantage" in body
    return [None if math.isnan(sampler) or not checked else 0.0 for sampler in logps]


def prompt(supplied: Sequence[Segment], tokenizer: Tokenizer | None) -> Iterator[Token]:
    for segment in supplied:
        ids = segment.token_ids[:MOST]
        for text, token in zip(spell(ids, tokenizer), ids, strict=True):
            yield Token(text=text, id=token, origin=segment.origin.value)


Recorded = tuple[float | None, float | None, float | None]
"""Advantage, difference and entropy of a token."""


def reply_tokens(reply: Sequence[tuple[int, float, Recorded]], tokenizer: Tokenizer | None) -> Iterator[Token]:
    ids = [token for token, _, _ in reply]
    for text, (token, logp, (advantage, difference, entropy)) in zip(spell(ids, tokenizer), reply, strict=True):
        is_sampled = not math.isnan(logp)
        yield Token(
            text=text, id=token, origin="sampled" if is_sampled else "prefilled", logp=logp if is_sampled else None,
            advantage=advantage, difference=difference, entropy=entropy if is_sampled else None,
        )  # fmt: skip


def spell(ids: Sequence[int], tokenizer: Tokenizer | None) -> Iterator[str]:
    """Texts of tokens. Tokens that are parts of one character are shown together at the last of them."""
    waiting: list[int] = []
    for token in ids:
        waiting.append(token)
        text = tokenizer.spell(waiting) if tokenizer else f"⟨{token}⟩"
        if text.endswith("\N{REPLACEMENT CHARACTER}") and len(waiting) < 4:
            text = ""
        else:
            waiting = []
        yield printable(text)


def spans(tokens: Sequence[Token], channel: str) -> Markup:
    """Tokens as markup, coloured by a channel; tokens that are no part of the reply stand in `origin` only."""
    visible = [token for token in tokens if channel == "origin" or token.origin in ("sampled", "prefilled")]
    largest = max((abs(token.advantage) for token in visible if token.advantage), default=0.0)
    return Markup("").join(
        Markup('<span class="{}" data-id="{}" data-origin="{}"{}>{}</span>').format(
            shade(token, channel, largest), token.id, token.origin, numbers(token), escape(token.text)
        )
        for token in visible
    )


def numbers(token: Token) -> Markup:
    """What is known of a token as attributes."""
    values = {
        "logp": token.logp,
        "advantage": token.advantage,
        "difference": token.difference,
        "entropy": token.entropy,
    }
    return Markup("").join(
        Markup(' data-{}="{}"').format(name, f"{value:.4g}") for name, value in values.items() if value is not None
    )


def shade(token: Token, channel: str, largest: float) -> str:
    """The class of a token's colour. Args: largest: the largest advantage of the turn, without its sign."""
    if channel == "origin" or token.origin == "prefilled":
        return f"o-{token.origin}"
    if channel == "probability":
        return "" if token.logp is None else f"s{min(SHADES - 1, int(math.exp(token.logp) * SHADES))}"
    value, full = {
        "advantage": (token.advantage, largest),
        "difference": (token.difference, FULL_DIFFERENCE),
        "entropy": (token.entropy, FULL_ENTROPY),
    }[channel]
    if not value:
        return "" if value is None else "zero"
    return f"{'more' if value > 0 else 'less'}{min(LEVELS, math.ceil(LEVELS * abs(value) / full))}"


def legend(channel: str) -> list[tuple[str, str]]:
    """Classes of a channel's colours, each with its meaning; empty where it is between its neighbours'."""
    if channel == "origin":
        origins = ("template", "task", "environment", "tool", "policy", "prefilled", "sampled")
        return [(f"o-{origin}", origin) for origin in origins]
    if channel == "probability":
        ends = {0: "0", SHADES - 1: "1"}
        return [(f"s{i}", ends.get(i, "")) for i in range(SHADES)] + [("o-prefilled", "prefilled")]
    low, high = {
        "advantage": ("lowest", "highest"),
        "difference": (f"−{FULL_DIFFERENCE} nats or less", f"{FULL_DIFFERENCE} nats or more"),
        "entropy": ("", f"{FULL_ENTROPY:g} nats or more"),
    }[channel]
    more = [(f"more{level}", high if level == LEVELS else "") for level in range(1, LEVELS + 1)]
    if channel == "entropy":
        return [("zero", "0"), *more, ("o-prefilled", "prefilled")]
    less = [(f"less{level}", low if level == LEVELS else "") for level in range(LEVELS, 0, -1)]
    return [*less, ("zero", "0"), *more]


def absent(body: Mapping[str, Any], channel: str, tier: str, held_out: bool) -> str:
    """Why a channel has nothing to show of a rollout, as a sentence; or what it shows is known from. May be empty."""
    if channel == "entropy" and "entropy" not in body:
        return "Not recorded: a run records it with rollout.entropy=true, where the engine knows it (embedded)."
    if channel in ("advantage", "difference") and "advantage" not in body:
        return "The learner did not use this rollout" + (": it is of an evaluation." if held_out else ".")
    if channel == "advantage" and "advantages" not in body:
        return "All tokens of this rollout have the same advantage."
    if channel == "difference" and "proximal_logp" not in body:
        if tier == "exact":
            return (
                "Every difference is 0: the run checked in each step that sampler and learner are equal in every bit."
            )
        return (
            "Not recorded: the learner scores a batch before its first update only where a step takes several updates "
            "or the objective needs it. The largest difference of each step is among the metrics of the run."
        )
    return ""
