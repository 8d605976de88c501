"""Who replies, which groups train and what is trained of a rollout: each pair that has a meaning runs."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from math import isnan
from pathlib import Path

import pytest

from gnomon.api import configure
from gnomon.envs import Env
from gnomon.envs.offers import players
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.keys import Key
from gnomon.rollout import pack
from gnomon.rollout.failures import judged_groups
from gnomon.rollout.relabel import WISH, condition
from gnomon.rollout.select import mixed, of_tasks, predictive_entropy
from gnomon.run.parts import build
from gnomon.types import Group, Rollout, Status

ENVS = {"char_count": (1, 1), "guess_number": (5, 1), "nim": (9, 2)}
"""Environments of one turn and of several, of one player and of two."""
SELECTORS = {"all": {}, "refill": {"refill": 2}, "candidates": {"candidates": 2}}
OPPONENTS = ("", "past", "tiny")
PROMPTS, GROUP = 3, 4
SAMPLED = ["rloo", "luffy", "verifree", "fcp", "sft", "opsd"]


def demonstrations(folder: Path, env: Env) -> str:
    path = folder / "demonstrations.jsonl"
    lines = [
        {"task": index, "reply": f"<answer>{env.solution(env.tasks('train')[index])}</answer>"} for index in range(9)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def settings(folder: Path, env: str, objective: str, selector: str, opponent: str, **more: object) -> dict[str, object]:
    from gnomon.envs import ENVS as KNOWN

    rollout = {"prompts": PROMPTS, "group": GROUP, "max_tokens": 10, **SELECTORS[selector], **more}
    if objective in ("sft", "luffy"):
        rollout["demonstrations"] = demonstrations(folder, KNOWN["char_count"]())
    if objective == "sft":
        rollout["group"] = 1
    return {
        "objective": objective,
        "rollout": rollout,
        "players": {"opponent": opponent, "every": 1, "keep": 2},
        "threads": 1,
        "steps": 4,
    }


def meaning(env: str, objective: str, selector: str, opponent: str) -> bool:
    """Whether a combination has one."""
    turns, players = ENVS[env]
    single = objective in ("sft", "luffy", "verifree", "opsd")
    if (single and (turns > 1 or players > 1)) or (opponent and players == 1):
        return False
    return not (objective == "sft" and selector != "all") and not (objective == "verifree" and selector == "refill")


CASES = list(product(ENVS, SAMPLED, SELECTORS, OPPONENTS))


@pytest.mark.parametrize(("env", "objective", "selector", "opponent"), [case for case in CASES if meaning(*case)])
def test_every_combination_that_has_a_meaning_runs(tmp_path, env, objective, selector, opponent):
    config = configure(env, settings(tmp_path, env, objective, selector, opponent))[0]
    parts = build(config)
    tasks = [(index, parts.env.tasks("train")[index]) for index in range(PROMPTS)]

    async def step(number: int) -> list[Group]:
        await parts.actor.sync(parts.learner.publish(), number)
        return await parts.actor.collect(tasks, Key(0).at("rollouts", step=number))

    try:
        groups, again = asyncio.run(step(0)), asyncio.run(step(0))
        held_out = asyncio.run(parts.actor.rollouts(tasks[:2], Key(0).at("eval"), 2))
    finally:
        parts.actor.workers.close()
    assert groups == again
    count = 1 if opponent else players(parts.env)
    played = of_tasks(groups)
    assert all(len(task) == count for task in played)
    assert sum(not task[0].spare for task in played) == PROMPTS
    if selector == "candidates":
        relabelled = objective in ("fcp", "verifree")
        worth = {spare: [predictive_entropy(t) for t in played if t[0].spare == spare] for spare in (0, 1)}
        assert len(played) == 2 * PROMPTS and (relabelled or min(worth[0]) >= max(worth[1]))
    if selector == "refill":
        assert len(played) > PROMPTS or all(any(mixed(group.rollouts) for group in task) for task in played)
    for rollout in (rollout for group in groups for rollout in group.rollouts):
        check(objective, rollout, config.rollout.group)
    assert all(r.verdict.status is not Status.UNJUDGED for group in held_out for r in group.rollouts)
    assert not any(isnan(x) for g in held_out for r in g.rollouts for turn in r.turns for x in turn.completion.logprobs)
    trained(parts, groups)


def check(objective: str, rollout: Rollout, group: int) -> None:
    """What an objective is promised of every rollout."""
    unknown = [isnan(logp) for turn in rollout.turns for logp in turn.completion.logprobs]
    match objective:
        case "rloo" | "opsd":
            assert not any(unknown)
        case "luffy" | "sft":
            shown = rollout.sample == group - 1
            assert all(unknown) if shown else not any(unknown)
            assert not shown or rollout.verdict.correct
        case "verifree":
            assert rollout.verdict.status is Status.UNJUDGED
        case "fcp" if rollout.turns:
            assert all(unknown) and rollout.turns[0].messages[0] == condition(rollout.verdict.status)
            assert condition(WISH) not in rollout.turns[0].messages[1:]


def trained(parts, groups: list[Group]) -> None:  # type: ignore[no-untyped-def]
    """A step is trained on them."""
    batch = pack(
        judged_groups(groups), sampling=parts.actor.sampling, exact=parts.actor.exact, limit=parts.actor.longest
    )
    batch = parts.credit(batch, parts.learner)
    parts.learner.forward_backward(batch, parts.objective)
    parts.learner.optim_step(parts.schedule(1))


@pytest.mark.parametrize(("env", "objective", "selector", "opponent"), [case for case in CASES if not meaning(*case)])
def test_every_combination_that_has_none_is_refused_with_a_sentence(tmp_path, env, objective, selector, opponent):
    with pytest.raises((ConfigError, ConfigErrors)) as caught:
        build(configure(env, settings(tmp_path, env, objective, selector, opponent))[0])
    assert any(code in str(caught.value) for code in ("E022", "E037", "E043", "E181", "E035"))


def test_both_selectors_are_refused(tmp_path):
    with pytest.raises(ConfigErrors, match=r"rollout\.refill and rollout\.candidates exclude each other"):
        configure("nim", settings(tmp_path, "nim", "rloo", "refill", "", candidates=2))


@pytest.mark.parametrize("env", ["char_count", "guess_number", "nim"])
def test_feedback_offline_samples_from_the_base_without_a_condition(tmp_path, env):
    """In several turns and with two players as in one."""
    config = configure(env, settings(tmp_path, env, "fcp", "all", "", offline=1.0))[0]
    parts = build(config)
    plain = build(configure(env, settings(tmp_path, env, "rloo", "all", ""))[0])
    tasks = [(index, parts.env.tasks("train")[index]) for index in range(PROMPTS)]
    try:
        groups = asyncio.run(parts.actor.collect(tasks, Key(0)))
        wanted = asyncio.run(plain.actor.collect(tasks, Key(0)))
    finally:
        parts.actor.workers.close()
        plain.actor.workers.close()
    assert [[r.text for r in g.rollouts] for g in groups] == [[r.text for r in g.rollouts] for g in wanted]
