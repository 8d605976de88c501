"""The gradient of a rollout with branches, against enumeration: a program that edits, compacts, spawns and retries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from endpoint.programs import renderer_of, tree_of
from gnomon.agents.exchange import ChatRequest, reply_message
from gnomon.agents.tree import Node
from gnomon.learners.credit import credit
from gnomon.objectives import CreditState, Tokens, objective
from gnomon.rendering import Renderer
from gnomon.rollout import pack
from gnomon.types import Completion, Finish, Group, Message, Part, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

SAMPLING = Sampling(max_tokens=2)
TASK = Task(id="0", messages=(), answer=None)
REPLIES = ("a.", "b.", "aa")
"""A reply is `a` or `b` and the end of the turn, or `aa`, which is truncated."""
CALLS = 6
LONG = 3
"""Number of calls whose reply may be truncated; the others are `a` or `b` and the end."""


def asked(*texts: str) -> list[Message]:
    """A system message, and messages of the user."""
    return [Message(role="system", content=texts[0]), *(Message(role="user", content=t) for t in texts[1:])]


class World:
    """A policy that is a table: by context, the logits of `a`, `b` and the end."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        encoding = renderer.encoding  # type: ignore[attr-defined]
        (a,), (b,) = encoding.tokenizer.encode("a"), encoding.tokenizer.encode("b")
        self.ids = {"a": a, "b": b, ".": encoding.control["<|im_end|>"]}
        self.table: dict[tuple[int, ...], torch.Tensor] = {}
        self.short: set[tuple[int, ...]] = set()
        """Contexts in which the end is sure."""

    def logp(self, context: tuple[int, ...], token: int) -> torch.Tensor:
        """The first token of a reply is `a` or `b`; after `a` may come another, where it is not short."""
        if context not in self.table:
            seed = hash(context) % 2**31
            logits = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            self.table[context] = logits.requires_grad_()
        a, b, end = self.ids.values()
        last = context[-1]
        allowed = [end] if context in self.short or last == b else {a: [a, end]}.get(last, [a, b])
        logits = self.table[context][[[a, b, end].index(token) for token in allowed]]
        return torch.log_softmax(logits, 0)[allowed.index(token)]

    def play(self, replies: tuple[str, ...]) -> tuple[tuple[Turn, ...], torch.Tensor, float]:
        """The turns of the program when the policy replies so, their log-probability, and the reward."""
        tree, given, total = tree_of(self.renderer), iter(replies), torch.zeros((), dtype=torch.float64)
        calls: list[tuple[int, ...]] = []

        def call(messages: list[Message], *, lose: bool = False) -> Node:
            nonlocal total
            node = tree.draw(tree.prompt(messages))
            if node.completion is None:
                ids, context = tuple(self.ids[sign] for sign in next(given)), node.prompt.token_ids
                calls.append(context)
                if len(calls) > LONG:
                    self.short |= {(*context, self.ids["a"]), (*context, self.ids["b"])}
                each = [self.logp(context + ids[:place], token) for place, token in enumerate(ids)]
                total = total + sum(each)
                finish = Finish.EOS if ids[-1] == self.ids["."] else Finish.LENGTH
                logprobs = tuple(float(logp.detach()) for logp in each)
                text = self.renderer.encoding.decode(ids)  # type: ignore[attr-defined]
                done = Completion(token_ids=ids, logprobs=logprobs, text=text, finish=finish, version=0)
                request = ChatRequest(messages=tuple(messages))
                parsed = self.renderer.parse(ids, context)
                tree.record(node, done, reply_message(parsed, done, "", request, False)[0])
            node.delivered = node.delivered or not lose
            assert node.reply is not None
            return node

        main = call(asked("main", "q"))
        assert main.reply is not None
        first = call(asked("sub", main.reply.content))
        call(asked("other", "x"), lose=True)
        second = call(asked("other", "x"))  # A retry: the draw that was lost.
        history = [*asked("main", "q"), main.reply]
        assert first.reply is not None and second.reply is not None
        later = call([*history, *asked("", first.reply.content)[1:]])
        edited = call([*asked("main", "q"), replace(main.reply, content="b"), *asked("", second.reply.content)[1:]])
        final = call(asked("main", f"summary {later.reply}"))
        nodes = (main, first, second, later, edited, final)
        reward = float(sum((i + 1) * (n.reply.content == "a") for i, n in enumerate(nodes) if n.reply)) ** 1.5
        return tree.turns(), total, reward

    def outcomes(self) -> Iterator[tuple[tuple[Turn, ...], torch.Tensor, float]]:
        for replies in product(*[REPLIES] * LONG, *[REPLIES[:2]] * (CALLS - LONG)):
            yield self.play(replies)


def rollout_of(turns: tuple[Turn, ...], reward: float, sample: int = 0) -> Rollout:
    verdict = Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=reward),))
    return Rollout(task=TASK, sample=sample, turns=turns, verdict=verdict, stop=Stop.DONE)


def surrogate(world: World, row_name: str, group: list[Rollout]) -> torch.Tensor:
    """Σ κ·log π over the trained tokens, as the objective weights them."""
    row = objective(row_name)
    batch, _ = credit(pack([Group(task=TASK, index=0, rollouts=tuple(group))], sampling=SAMPLING, exact=False), row,
                      state=CreditState())  # fmt: skip
    logp = [
        world.logp(tuple(sequence.token_ids[:place].tolist()), int(sequence.token_ids[place]))
        for sequence in batch.sequences
        for place in sequence.trainable.nonzero()[:, 0].tolist()
    ]
    assert batch.advantage is not None
    tokens = Tokens(
        logp=torch.stack(logp).detach(),
        behavior_logp=batch.behavior_logp,
        advantage=batch.advantage,
        sequence=batch.rollout,
        group=batch.group,
    )
    return (row.coefficients(tokens, batch.denominators) * torch.stack(logp)).sum()


def test_the_expected_gradient_is_that_of_the_expected_reward(tmp_path: Path):
    world = World(renderer_of("chatml", tmp_path))
    value, estimate, mass = (torch.zeros((), dtype=torch.float64) for _ in range(3))
    for turns, logp, reward in world.outcomes():
        assert sum(len(turn.completion.token_ids) for turn in turns) == 2 * CALLS
        value = value + logp.exp() * reward
        estimate = estimate + logp.exp().detach() * surrogate(world, "reinforce", [rollout_of(turns, reward)])
        mass = mass + logp.exp().detach()
    assert math.isclose(float(mass), 1.0)
    table = [logits for logits in world.table.values()]
    wanted = torch.autograd.grad(value, table)
    found = torch.autograd.grad(estimate, table)
    assert len(table) > 40 and max(float(each.abs().max()) for each in wanted) > 0.1
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_branch_changes_nobody_s_baseline(tmp_path: Path):
    """The rollouts of a group are compared as wholes: κ is that of the parts, each with the whole's advantage."""
    world = World(renderer_of("chatml", tmp_path))
    forked, _, _ = world.play(("a.",) * CALLS)
    single, _, _ = world.play(("b.",) * CALLS)
    group = [rollout_of(forked, 1.0), rollout_of(single[:1], 0.0, 1)]
    whole = surrogate(world, "rloo", group)
    forks = sorted({turn.fork for turn in forked})
    assert len(forks) > 3
    parts = [surrogate(world, "rloo", [rollout_of(tuple(t for t in forked if t.fork == fork), 1.0),
                                       rollout_of((), 0.0, 1)]) for fork in forks]  # fmt: skip
    other = surrogate(world, "rloo", [rollout_of((), 1.0), group[1]])
    table = [logits for logits in world.table.values()]
    found = torch.autograd.grad(whole, table, allow_unused=True)
    wanted = torch.autograd.grad(sum([*parts, other]), table, allow_unused=True)
    for one, another in zip(found, wanted, strict=True):
        assert (one is None) is (another is None)
        if one is not None:
            torch.testing.assert_close(one, another)
