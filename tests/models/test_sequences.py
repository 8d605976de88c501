"""Conversations sampled turn by turn and read whole: the same bits, whatever else is in the pass.

Random ones, over families, dtypes, lengths around the places where sums are cut, turns, players who speak by turns,
samples of one prompt and histories that are rewritten.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gnomon.engines import sample_all
from gnomon.engines.embedded import Embedded
from gnomon.keys import Key
from gnomon.models.attention import SPAN
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import text_logp, text_pass
from gnomon.models.trie import Trie
from gnomon.types import Completion, Request, Sampling
from models.kinds import KINDS, save

LENGTHS = (1, 2, 17, 40, SPAN - 1, SPAN, SPAN + 1, 150)
"""Of prompts, in tokens."""
REPLIES = (1, 3, 20, 45)
HEARD = (1, 7, 30)
"""Of what comes between two replies."""
MOST = 440
"""Tokens of the longest conversation."""


@dataclass(slots=True)
class Talk:
    """A conversation of one player as it grows."""

    ids: list[int]
    trainable: list[bool]
    logps: list[float]

    @property
    def token_ids(self) -> Tensor:
        return torch.tensor(self.ids)

    def hear(self, tokens: Sequence[int]) -> None:
        self.ids += tokens
        self.trainable += [False] * len(tokens)

    def say(self, completion: Completion) -> None:
        self.ids += completion.token_ids
        self.trainable += [True] * len(completion.token_ids)
        self.logps += completion.logprobs

    def rewritten(self) -> Talk:
        """A new conversation that begins with a part of this one."""
        kept = [*self.ids[: len(self.ids) // 3], *self.ids[len(self.ids) // 2 :]]
        return Talk(kept, [False] * len(kept), [])


@dataclass(frozen=True, slots=True)
class Text:
    token_ids: Tensor
    trainable: Tensor


def random_ids(rng: random.Random, count: int) -> list[int]:
    """Tokens that end nothing."""
    return [rng.randrange(2, 102) for _ in range(count)]


def played(policy: Policy, seed: int, *, turns: int = 3, players: int = 2, samples: int = 3) -> list[Talk]:
    """Every conversation of some episodes, sampled turn by turn: players hear each other, and some are rewritten."""
    rng, engine = random.Random(seed), Embedded(policy)
    tables = []
    for prompt in [random_ids(rng, rng.choice(LENGTHS)) for _ in range(3)]:
        names = [random_ids(rng, 1) for _ in range(players)]
        tables += [[Talk([], [], []) for _ in range(players)] for _ in range(samples)]
        for table in tables[-samples:]:
            for talk, name in zip(table, names, strict=True):
                talk.hear([*name, *prompt])
    ended = []
    for turn in range(turns * players):
        player = turn % players
        live = [(place, table) for place, table in enumerate(tables) if len(table[player].ids) < MOST - max(REPLIES)]
        for _, table in live:
            if turn >= players and rng.random() < 0.3:
                ended.append(table[player])
                table[player] = table[player].rewritten()
        found = sampled(engine, [asked(table[player], seed, turn, place, rng) for place, table in live])
        for (_, table), completion in zip(live, found, strict=True):
            for other, talk in enumerate(table):
                if other == player:
                    talk.say(completion)
                    talk.hear(random_ids(rng, rng.choice(HEARD)))
                else:
                    talk.hear(completion.token_ids)
    return [talk for talk in [*ended, *(talk for table in tables for talk in table)] if talk.logps]


def longest(talks: Sequence[Talk]) -> int:
    return max(len(talk.ids) for talk in talks)


def asked(talk: Talk, seed: int, turn: int, place: int, rng: random.Random) -> Request:
    return Request(
        prompt_ids=tuple(talk.ids),
        key=Key(seed).at("test", turn=turn, row=place).bytes,
        sampling=Sampling(max_tokens=rng.choice(REPLIES)),
    )


def sampled(engine: Embedded, requests: Sequence[Request]) -> list[Completion]:
    return asyncio.run(sample_all(engine, requests))


def texts_of(talks: Sequence[Talk]) -> list[Text]:
    return [Text(torch.tensor(talk.ids), torch.tensor(talk.trainable)) for talk in talks]


def told(talks: Sequence[Talk]) -> Tensor:
    return torch.tensor([logp for talk in talks for logp in talk.logps])


def pieces(count: int, size: int, rng: random.Random) -> list[list[int]]:
    """All places in random order, so many together."""
    order = rng.sample(range(count), count)
    return [order[start : start + size] for start in range(0, count, size)]


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return save(request.param, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_sampled_turn_by_turn_is_read_whole_with_the_same_bits(folder: Path, dtype: torch.dtype) -> None:
    """In float32; in bfloat16 wherever the engine measures no difference, as it is here and now."""
    policy, rng = Policy.load(folder, Precision.only(dtype)), random.Random(0)
    talks = next(talks for seed in count(len(str(policy.model))) if longest(talks := played(policy, seed)) > 2 * SPAN)
    texts, expected = texts_of(talks), told(talks)
    assert len(texts) > 18
    assert torch.equal(text_logp(policy, texts), expected)
    sizes = [len(talk.logps) for talk in talks]
    for size in (1, 5):
        for places in pieces(len(texts), size, rng):
            found = text_logp(policy, [texts[place] for place in places])
            parts = expected.split(sizes)
            assert torch.equal(found, torch.cat([parts[place] for place in places]))


def gradient(policy: Policy, talks: Sequence[Talk], parts: Sequence[Sequence[int]]) -> Tensor:
    """Of a weighted sum of log-probabilities, over passes that hold some of the conversations each."""
    policy.model.zero_grad()
    texts = texts_of(talks)
    for places in parts:
        some = [texts[place] for place in places]
        weight = torch.cat([torch.linspace(-1, 1, len(talks[place].logps)) * (1 + place % 3) for place in places])
        logp = policy(text_pass(policy, some)).logp
        (logp * weight.to(logp.dtype)).sum().backward()  # type: ignore[no-untyped-call]
    return torch.cat([value.grad.flatten() for value in policy.state().values() if value.grad is not None])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_gradient_is_the_same_however_the_conversations_are_put_into_passes(
    folder: Path, dtype: torch.dtype
) -> None:
    """Up to the order of its sums; norms of some families are computed in float32 whatever the dtype."""
    talks, rng = played(Policy.load(folder), 0, turns=2, samples=2), random.Random(0)
    policy = Policy.load(folder, Precision.only(dtype))
    rounded = dtype == torch.float32 or "RMSNorm" in str(policy.model)
    whole = gradient(policy, talks, [list(range(len(talks)))])
    assert whole.abs().max() > 1e-2
    for size in (1, 4):
        found = gradient(policy, talks, pieces(len(talks), size, rng))
        assert float((found - whole).abs().max() / whole.abs().max()) <= (1e-5 if rounded else 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_every_distinct_prefix_passes_once(seed: int) -> None:
    policy = Policy.load("tiny")
    talks = played(policy, seed, samples=4)
    inputs = [torch.tensor(talk.ids[:-1]) for talk in talks]
    trie = Trie(inputs)
    assert len(trie.ids) == len({tuple(talk.ids[:end]) for talk in talks for end in range(1, len(talk.ids))})
    for path, text in zip(trie.paths, inputs, strict=True):
        assert torch.equal(trie.ids[torch.from_numpy(path)], text)
        assert trie.positions[torch.from_numpy(path)].tolist() == list(range(len(text)))


def test_a_conversation_passes_once_and_not_once_a_turn() -> None:
    """What passes is what is asked for and what stands between, and not the history again for every turn."""
    policy = Policy.load("tiny")
    talks = played(policy, 5, players=1, samples=1)
    turn_by_turn = 0
    for talk in talks:
        starts = [at for at, own in enumerate(talk.trainable) if own and not talk.trainable[at - 1]]
        ends = [at for at, own in enumerate(talk.trainable) if own and not (talk.trainable[at + 1 :] or [False])[0]]
        turn_by_turn += sum(end for end in ends) if starts else 0
    whole = len(Trie([torch.tensor(talk.ids[:-1]) for talk in talks]))
    assert whole < turn_by_turn / 1.5


def test_a_pass_of_few_tokens_is_filled_up() -> None:
    trie = Trie([torch.tensor([5]), torch.tensor([5, 6])], least=16)
    assert len(trie) == 16 and [path.tolist() for path in trie.paths] == [[0], [0, 1]]
    assert len(Packed(trie).positions) == 16
    assert set(trie.ids.tolist()) == {5, 6}, "no token that the texts do not have"
    assert Trie([torch.tensor([-7, 6])], least=4).ids.tolist() == [-7, 6, 0, 0], "an image is not repeated"
