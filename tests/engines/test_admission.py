"""Rows join and leave a running batch: no completion depends on what arrives when, and every bit is the learner's."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from itertools import chain

import pytest
import torch

from engines.asking import ask
from gnomon.engines import decoder
from gnomon.engines.branches import Branches
from gnomon.engines.decoder import Decoder
from gnomon.engines.embedded import Embedded
from gnomon.engines.lanes import AHEAD, Lanes
from gnomon.keys import Key
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.models.threads import Threads
from gnomon.types import Completion, Request, Sampling

OPENINGS = ("Use 3, 4, 5\n", "Compute 12 + 30 - 7. End with <answer>...</answer>\n", "z", "Use 3, 4, 9\n")
TURNS = 4


@dataclass(frozen=True)
class Talk:
    """A conversation of several turns; what comes between two of them has a length of its own."""

    opening: str
    sample: int

    def request(self, policy: Policy, turn: int, before: tuple[int, ...]) -> Request:
        rng = random.Random(f"{self.opening} {self.sample} {turn}")
        told = policy.tokenizer.encode(self.opening if turn == 0 else "\n" + "on " * rng.randrange(1, 30))
        key = Key(0).at("talk", opening=self.opening, sample=self.sample, turn=turn).bytes
        cold = 0.0 if rng.random() < 0.1 else rng.choice((0.7, 1.0))
        return Request(
            prompt_ids=before + told,
            key=key,
            sampling=Sampling(max_tokens=rng.choice((1, 3, 17, 40, 70)), temperature=cold),
        )


TALKS = [Talk(opening, sample) for opening in OPENINGS for sample in range(3)]


async def talked(engine: Embedded, talk: Talk, rng: random.Random | None) -> list[tuple[Request, Completion]]:
    """Every turn of a conversation; between two of them it waits for as many turns of the event loop as is drawn."""
    found: list[tuple[Request, Completion]] = []
    before: tuple[int, ...] = ()
    for turn in range(TURNS):
        for _ in range(rng.randrange(0, 60) if rng else 0):
            await asyncio.sleep(0)
        request = talk.request(engine.policy, turn, before)
        completion = await engine.sample(request)
        found.append((request, completion))
        before = request.prompt_ids + completion.token_ids
    return found


def run(
    policy: Policy, talks: list[Talk], rng: random.Random | None, threads: int = 1
) -> dict[Talk, list[tuple[Request, Completion]]]:
    engine = Embedded(policy, threads=threads)

    async def all_of_them() -> list[list[tuple[Request, Completion]]]:
        return await asyncio.gather(*(talked(engine, talk, rng) for talk in talks))

    return dict(zip(talks, asyncio.run(all_of_them()), strict=True))


@pytest.fixture(scope="module")
def together(policy: Policy) -> dict[Talk, list[tuple[Request, Completion]]]:
    return run(policy, TALKS, None)


@pytest.mark.parametrize("seed", range(6))
def test_no_completion_depends_on_what_arrives_when(policy, together, seed):
    rng = random.Random(seed)
    assert run(policy, rng.sample(TALKS, len(TALKS)), rng) == together


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_completion(policy, together, threads):
    rng = random.Random(threads)
    assert run(policy, TALKS, None, threads) == together
    assert run(policy, rng.sample(TALKS, len(TALKS)), rng, threads) == together


def test_rows_of_one_prompt_share_a_thread_until_it_is_fuller_than_the_others(policy):
    """A prompt is computed once for its rows, and many rows of one prompt still use all threads."""
    lanes = Lanes(policy, Threads(2))

    def admit(opening: str, rows: int) -> None:
        prompt = policy.tokenizer.encode(opening)
        for row in range(rows):
            lanes.admit(Request(prompt_ids=prompt, key=bytes([row]) * 16, sampling=Sampling(max_tokens=2)))

    for opening in OPENINGS:
        admit(opening, 8)
    assert [len(decoder.rows) for decoder in lanes._lanes] == [16, 16]
    assert all(len({row.request.prompt_ids for row in decoder.rows.values()}) == 2 for decoder in lanes._lanes)
    admit("one more", 60)
    few, many = sorted(len(decoder.rows) for decoder in lanes._lanes)
    assert few + many == 92 and many - few <= AHEAD
    lanes.drop(3)
    lanes.step()
    assert sorted(number for number, _ in lanes.step()) == [number for number in range(92) if number != 3]
    assert not lanes.rows


def test_a_conversation_alone_is_the_same(policy, together):
    for talk in TALKS[::4]:
        assert run(policy, [talk], None) == {talk: together[talk]}


def test_every_turn_of_every_conversation_has_the_learners_bits(policy, together):
    turns = [turn for turns in together.values() for turn in turns]
    assert max(len(request.prompt_ids) for request, _ in turns) > 200
    for request, completion in turns:
        if (temperature := request.sampling.temperature) == 0:
            continue
        learned = score(policy, [request.prompt_ids], [(0, completion.token_ids)], temperature)
        assert torch.equal(torch.tensor(completion.logprobs), learned)


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_join_and_leave_at_random_have_the_bits_of_a_row_alone(policy, seed):
    """Requests that share a prompt join early and late, many at a time and one by one; some are dropped."""
    rng = random.Random(seed)
    prompts = [*OPENINGS, "Use 7, 8\n" * 20]
    requests = [
        ask(policy, prompt, sample, rng.choice((1, 2, 9, 33, 65, 90)))
        for prompt in prompts
        for sample in range(rng.randrange(1, 7))
    ]
    rng.shuffle(requests)
    decoder, waiting, of, found, dropped = Decoder(policy), list(requests), {}, {}, set()
    while waiting or decoder.rows:
        for _ in range(min(len(waiting), rng.choice((0, 0, 1, 2, 9)))):
            request = waiting.pop()
            of[decoder.admit(request)] = request
        if not decoder.rows:
            continue
        found.update({of[number].key: completion for number, completion in decoder.step()})
        if decoder.rows and rng.random() < 0.05:
            number = rng.choice(list(decoder.rows))
            decoder.drop(number)
            dropped.add(of[number].key)
    assert len(found) + len(dropped) == len(requests)
    for request in requests:
        if request.key in found:
            completion = found[request.key]
            learned = score(policy, [request.prompt_ids], [(0, completion.token_ids)])
            assert torch.equal(torch.tensor(completion.logprobs), learned)
            if rng.random() < 0.2:
                alone = Decoder(policy)
                alone.admit(request)
                ends = []
                while not ends:
                    ends = alone.step()
                assert ends[0][1] == completion


def test_many_long_prompts_at_once_are_read_a_few_in_a_pass_with_the_same_bits(policy, monkeypatch):
    """Twelve prompts of 90 to 200 tokens, two rows each, and one that is longer than a pass has room for."""
    rng, room = random.Random(0), 512
    lengths = [*(rng.randrange(90, 200) for _ in range(12)), 700]
    rng.shuffle(lengths)
    prompts = [tuple(rng.randrange(2, policy.vocabulary) for _ in range(length)) for length in lengths]
    requests = [
        replace(ask(policy, "", 2 * place + row, 30), prompt_ids=prompt)
        for place, prompt in enumerate(prompts)
        for row in range(2)
    ]
    plan, passes = Branches.plan, []

    def seen(branches):
        ids, planned = plan(branches)
        passes.append([planned.prompts[slot] for slot in planned.new])
        return ids, planned

    monkeypatch.setattr(Branches, "plan", seen)

    def begun() -> tuple[list[Completion], list[list[int]]]:
        passes.clear()
        found, ended = Decoder(policy), {}
        for request in requests:
            found.admit(request)
        found.drop(3)
        while found.rows:
            ended.update(found.step())
        return [ended[number] for number in sorted(ended)], [new for new in passes if new]

    monkeypatch.setattr(decoder, "PROMPT_TOKENS", 2**20)
    whole, (first, *rest) = begun()
    assert len(first) == 13 and not rest
    monkeypatch.setattr(decoder, "PROMPT_TOKENS", room)
    few, several = begun()
    assert few == whole and sorted(chain.from_iterable(several)) == sorted(first)
    assert [700 - 1] in several and all(len(new) * (max(new) + 1) <= room for new in several if new != [699])
    assert len(several) < len(first)


def test_who_stops_waiting_leaves_the_batch(policy):
    engine = Embedded(policy)
    request = ask(policy, "Use 3, 4, 5\n", 0, 60)

    async def play() -> Completion:
        tasks = [asyncio.create_task(engine.sample(ask(policy, "z", sample, 500))) for sample in range(5)]
        whole = asyncio.create_task(engine.sample(request))
        for _ in range(10):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        return await whole

    assert asyncio.run(play()) == asyncio.run(engine.sample(request))


def test_an_engine_that_broke_tells_everybody_and_begins_anew(policy, monkeypatch):
    engine = Embedded(policy)
    request = ask(policy, "z", 0, 5)

    async def both() -> list[object]:
        return await asyncio.gather(engine.sample(request), engine.sample(request), return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "step", lambda self: 1 / 0)
        assert [type(found) for found in asyncio.run(both())] == [ZeroDivisionError] * 2
    one, two = asyncio.run(both())
    assert one == two


def test_weights_are_not_loaded_under_a_running_batch(policy):
    from gnomon.learners.local import LocalLearner

    engine = Embedded(Policy.load("tiny"))
    weights = LocalLearner(Policy.load("tiny")).publish()

    async def play() -> None:
        task = asyncio.create_task(engine.sample(ask(policy, "z", 0, 50)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="decoding"):
            engine.load(weights)
        await task
        engine.load(weights)

    asyncio.run(play())
