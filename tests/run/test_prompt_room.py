"""Prompts that fill the context are named before a run, skipped by its measurements, and named in its records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gnomon
from gnomon.config import Env as EnvConfig
from gnomon.config import Rollout, RunConfig
from gnomon.doctor.evidence import evidence_of
from gnomon.doctor.rollout import find
from gnomon.envs import Dataset
from gnomon.errors import ConfigError
from gnomon.models.folder import TINY
from gnomon.models.tokenizer import Tokenizer
from gnomon.monitoring.alarms import alarms
from gnomon.rendering import choose
from gnomon.run.makers.engine import PROBES, probe_prompts
from gnomon.run.prompt_tokens import prompt_tokens, without_room

CONTEXT = 100


def written(path: Path, every: int) -> str:
    rows = [{"prompt": "x " * 200 * (n % every == 0) + f"{n}+1?", "answer": str(n + 1)} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def config(path: str) -> RunConfig:
    return RunConfig(env=EnvConfig(type="dataset", path=path), rollout=Rollout(context=CONTEXT, max_tokens=4))


def test_prompts_that_fill_the_context_are_counted_and_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 4)
    env, own = Dataset(path=path), config(path)
    sentences = list(without_room(own, env))
    named = {
        int(word) for sentence in sentences for word in sentence.partition("rows ")[2].partition(";")[0].split(", ")
    }
    counted = {
        env.tasks(split)[index].info["row"]
        for split in ("train", "test")
        for index in range(len(env.tasks(split)))
        if prompt_tokens(own, split, index).count >= CONTEXT
    }
    assert named == counted == set(range(0, 40, 4)), sentences
    assert not list(without_room(RunConfig(env=own.env), env)), "with room for all there is nothing to say"
    assert not list(without_room(RunConfig(rollout=Rollout(context=2)), gnomon.envs.CharCount())), "it has no end"


def test_a_data_set_without_room_for_any_reply_is_refused_with_a_context_that_fits(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 1)
    with pytest.raises(ConfigError, match="E198") as caught:
        list(without_room(config(path), Dataset(path=path)))
    enough = int(caught.value.fix.removeprefix("rollout.context="))
    assert not list(without_room(RunConfig(rollout=Rollout(context=enough, max_tokens=4)), Dataset(path=path)))


@pytest.mark.parametrize("every", [1, 2, 4])
def test_sampler_and_learner_are_compared_on_prompts_with_room(every: int, tmp_path: Path) -> None:
    tokenizer = Tokenizer(TINY)
    prompts = probe_prompts(choose(tokenizer), Dataset(path=written(tmp_path / "a.jsonl", every)), CONTEXT)
    assert len(prompts) == PROBES and max(map(len, prompts)) < CONTEXT


def test_a_run_with_such_prompts_has_an_alarm_and_a_finding(tmp_path: Path) -> None:
    run = gnomon.train(
        "dataset", run=tmp_path / "r", steps=1, quiet=True, env={"path": written(tmp_path / "a.jsonl", 2)},
        rollout={"prompts": 8, "group": 2, "max_tokens": 4, "context": CONTEXT}, eval={"tasks": 2},
    )  # fmt: skip
    with run:
        (alarm,) = [alarm for alarm in alarms(run) if alarm.name == "prompt.without_room"]
        (finding,) = [finding for finding in find(evidence_of(run)) if finding.name == "rollout.no_room"]
        full = [f"{r.step}:{r.task}:{r.sample}" for r in run.records("rollout") if r.body["stop"] == "context"]
    assert full and alarm.read == tuple(full[:3]) == finding.read and f"{len(full)} rollouts" in alarm.sentence
