"""Scores at token budgets: from the environment's verdicts to the gradient of an objective that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import gnomon
from gnomon.api import configure
from gnomon.envs import Anytime
from gnomon.envs.wire import read_step, step_json
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.learners.credit import credit
from gnomon.objectives import CreditState, Objective, across_players, brpo, rloo, turn_reinforce
from gnomon.rollout import pack
from gnomon.run.parts import open_parts
from gnomon.store import RunReader
from gnomon.types import Completion, Finish, Group, Part, Rollout, Sampling, Status, Stop, Turn, Verdict

BUDGETS = 3
ENV = Anytime(budgets=BUDGETS, largest=BUDGETS)
"""Every budget is one token larger than the one before, so a turn is one token."""
TASK = ENV.tasks("train")[0]
WORDS = (f"<answer>{TASK.answer}</answer>", "<answer>x</answer>")
"""The two tokens: a right answer and a wrong one."""
HISTORIES = [words for turn in range(BUDGETS) for words in product(range(2), repeat=turn)]
GROUP = 2


def policy() -> Tensor:
    """[7, 2] logits of the next token after every history; all different, so that no symmetry hides an error."""
    return (torch.arange(14, dtype=torch.float64).reshape(7, 2) * 1.7).sin().requires_grad_()


def logp(logits: Tensor, words: tuple[int, ...]) -> Tensor:
    """[3] log-probability of every token of an episode."""
    table = logits.log_softmax(1)
    return torch.stack([table[HISTORIES.index(words[:turn]), words[turn]] for turn in range(BUDGETS)])


def rollout(words: tuple[int, ...], chances: Tensor, sample: int) -> Rollout:
    """The episode of these tokens, with the verdict of the environment."""
    episode, turns, step = ENV.start(TASK, Key(0)), [], None
    seen: tuple[int, ...] = (9,)
    for word, chance in zip(words, chances.tolist(), strict=True):
        completion = Completion(
            token_ids=(word,), logprobs=(chance,), text=WORDS[word], finish=Finish.LENGTH, version=0
        )
        turns.append(Turn(prompt_ids=seen, completion=completion))
        seen = (*seen, word, 9)
        step = episode.step(WORDS[word])
    assert step is not None and step.verdict is not None
    return Rollout(task=TASK, sample=sample, turns=tuple(turns), verdict=step.verdict, stop=Stop.DONE)


def groups(logits: Tensor) -> Iterator[tuple[Tensor, Group, Tensor]]:
    """Every group of two: its probability, the group, and the log-probabilities of its tokens."""
    for members in product(product(range(2), repeat=BUDGETS), repeat=GROUP):
        each = [logp(logits, words) for words in members]
        rollouts = tuple(
            rollout(words, part.detach(), n) for n, (words, part) in enumerate(zip(members, each, strict=True))
        )
        yield torch.cat(each).sum().exp().detach(), Group(task=TASK, index=0, rollouts=rollouts), torch.cat(each)


def score(logits: Tensor, weights: tuple[float, ...]) -> Tensor:
    """Σⱼ wⱼ·P(right at budget j), by enumeration."""
    return sum(
        (
            logp(logits, words).sum().exp() * sum(w for w, word in zip(weights, words, strict=True) if word == 0)
            for words in product(range(2), repeat=BUDGETS)
        ),
        start=torch.zeros((), dtype=torch.float64),
    )


def expected(row: Objective, logits: Tensor) -> Tensor:
    """The expected gradient of a step of one group: Σ A ∇log π / (N·L_max), from the advantage of the packed batch."""
    total = torch.zeros_like(logits)
    for chance, group, logps in groups(logits):
        batch = pack([group], sampling=Sampling(max_tokens=1), exact=True, limit=BUDGETS)
        ready, _ = credit(batch, row, state=CreditState())
        assert ready.advantage is not None
        loss = (ready.advantage * logps).sum() / (GROUP * BUDGETS)
        total += chance * torch.autograd.grad(loss, logits)[0]
    return total


def test_the_expected_gradient_of_brpo_is_that_of_the_mean_score_over_budgets() -> None:
    """Through the environment's verdicts and the batch, over all 64 groups; float64 sums of 64 terms: within 1e-14."""
    logits = policy()
    (exact,) = torch.autograd.grad(score(logits, (1 / BUDGETS,) * BUDGETS) / BUDGETS, logits)
    torch.testing.assert_close(expected(brpo(), logits), exact, rtol=0, atol=1e-14)
    later_first = torch.autograd.grad(score(logits, (1.0, 0.0, 0.0)) / BUDGETS, logits)[0]
    assert (expected(brpo(), logits) - later_first).abs().max() > 0.01  # The first budget alone has another gradient.
    assert (expected(brpo(baseline="group"), logits) - exact).abs().max() > 0.001  # A shrunk one, as its page says.


def test_the_batch_has_the_score_of_every_budget_and_other_objectives_do_not_read_it() -> None:
    chances = torch.full((BUDGETS,), -0.5)
    group = Group(task=TASK, index=0, rollouts=(rollout((0, 1, 0), chances, 0), rollout((1, 1, 0), chances, 1)))
    batch = pack([group], sampling=Sampling(max_tokens=4), exact=True)
    assert batch.rollouts.budget_scores is not None and batch.rollouts.segment is not None
    assert batch.rollouts.budget_scores.tolist() == [[[1, 0, 1], [0, 0, 1]]]
    assert batch.rollouts.segment.tolist() == [0, 1, 2] * 2 and batch.rollouts.segment_rewards is None
    for row in (rloo(), turn_reinforce()):
        without = replace(batch, rollouts=replace(batch.rollouts, budget_scores=None))
        found = [credit(one, row, state=CreditState())[0].advantage for one in (batch, without)]
        assert found[0] is not None and found[1] is not None and torch.equal(found[0], found[1])
    twice = pack([group, replace(group, rollouts=tuple(replace(r, player=1) for r in group.rollouts))],
                 sampling=Sampling(max_tokens=4), exact=True)  # fmt: skip
    merged = across_players(twice.rollouts).budget_scores
    assert merged is not None and merged.tolist() == [[[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]]]


@pytest.mark.parametrize(
    ("parts", "scores"),
    [
        ([("at_0", "at_1"), ()], [[1, 1], [0, 0]]),
        ([("at_0", "at_1"), ("at_0",)], None),
        ([("solved",), ("solved",)], None),
        ([(), ()], None),
        ([("at_1", "at_0"), ("other", "at_0", "at_1")], [[1, 1], [1, 1]]),
    ],
    ids=["one was ended by a limit", "different budgets", "none", "no parts", "in any order"],
)
def test_verdicts_that_do_not_score_the_same_budgets_are_refused(
    parts: list[tuple[str, ...]], scores: list[list[float]] | None
) -> None:
    reply = Completion(token_ids=(3,), logprobs=(-1.0,), text="a", finish=Finish.EOS, version=0)
    verdicts = [Verdict(status=Status.WRONG, parts=tuple(Part(name=n, value=1.0) for n in names)) for names in parts]
    turns = (Turn(prompt_ids=(1,), completion=reply), Turn(prompt_ids=(1, 3, 4), completion=reply))
    rollouts = tuple(
        Rollout(task=TASK, sample=n, turns=turns, verdict=verdict, stop=Stop.DONE) for n, verdict in enumerate(verdicts)
    )
    batch = pack([Group(task=TASK, index=0, rollouts=rollouts)], sampling=Sampling(max_tokens=4), exact=True)
    found = batch.rollouts.budget_scores
    assert (None if found is None else found[0].tolist()) == scores
    if scores is None:
        with pytest.raises(ConfigError, match=r"(?s)E119.*at_0, at_1"):
            credit(batch, brpo(), state=CreditState())
    else:
        assert credit(batch, brpo(), state=CreditState())[0].advantage is not None


SMALL: dict[str, Any] = {
    "threads": 1,
    "steps": 2,
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 24},
    "eval": {"every": 2, "tasks": 4},
}


@pytest.mark.parametrize("baseline", ["others", "group"])
def test_a_run_trains_on_the_scores_and_every_reply_ends_at_its_budget(tmp_path: Path, baseline: str) -> None:
    env = Anytime(largest=24)
    brpo: Any = {"type": "brpo", "baseline": baseline}
    gnomon.train(env, run=tmp_path / "run", quiet=True, objective=brpo, **SMALL).close()
    with RunReader(tmp_path / "run") as reader:
        assert reader.status == "finished" and reader.steps == 2
        tasks, records = Anytime(largest=24).tasks("train"), list(reader.records(kind="rollout"))
        assert len(records) == 8
        cut = 0
        for record in records:
            assert [part["name"] for part in record.body["parts"]] == ["at_0", "at_1", "at_2"]
            budgets = tasks[record.task or 0].info["budgets"]
            sizes = [turn["tokens"] for turn in record.body["turns"]]
            limits = [after - before for before, after in pairwise((0, *budgets))]
            assert len(sizes) == 3 and all(size <= limit for size, limit in zip(sizes, limits, strict=True))
            cut += sum(turn["finish"] == "length" for turn in record.body["turns"])
        assert cut > 0


@dataclass(frozen=True, kw_only=True)
class Unbudgeted(Anytime):
    """Budgets that are not declared."""

    token_budgets = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Shared(Anytime):
    """Two players."""

    players = 2


@pytest.mark.parametrize("baseline", ["others", "group"])
@pytest.mark.parametrize(
    ("env", "rollout", "words"),
    [
        ("char_count", {}, "no budgets"),
        ("guess_number", {}, "no budgets"),
        ("nim", {}, "no budgets"),
        (Unbudgeted(), {"max_tokens": 96}, "no budgets"),
        (Shared(), {"max_tokens": 96}, "several players"),
        ("anytime", {"turns": 2, "max_tokens": 96}, "turns = 2"),
        ("anytime", {"max_tokens": 95}, "max_tokens = 95"),
        ("anytime", {"failure_prefix": 0.5, "max_tokens": 96, "prompts": 2}, "failure_prefix"),
    ],
)
def test_budgets_that_are_missing_or_cannot_be_kept_are_refused_before_the_start(
    tmp_path: Path, baseline: str, env: Any, rollout: dict[str, object], words: str
) -> None:
    named = env if isinstance(env, str) else "anytime"
    brpo = {"type": "brpo", "baseline": baseline}
    config = configure(named, {"objective": brpo, "threads": 1, "rollout": rollout})[0]
    with pytest.raises(ConfigError, match=rf"(?s)E119.*{words}"), open_parts(config, None if named is env else env):
        raise AssertionError("it was built")


def test_the_limit_of_a_reply_reaches_an_environment_in_another_process() -> None:
    episode = ENV.start(TASK, Key(0))
    step = episode.step(WORDS[0])
    assert episode.tokens == step.tokens == 1 and read_step(step_json(step)) == step
    old = {key: value for key, value in step_json(step).items() if key != "tokens"}
    assert read_step(old).tokens is None
