"""Failed replies that are continued: what is recorded of them, what is trained, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.envs import CharCount
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.models.folder import TINY
from gnomon.models.tokenizer import Tokenizer
from gnomon.rejudge.replay import replay
from gnomon.rollout import pack
from gnomon.rollout.continuing import cuts
from gnomon.store import RunReader
from gnomon.types import Completion, Finish, Group, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

SMALL: dict[str, Any] = {
    "steps": 4,
    "threads": 1,
    "objective": "rloo",
    "rollout": {"prompts": 4, "group": 2, "max_tokens": 24},
    "eval": {"tasks": 2, "every": 9},
    "save": {"every": 1, "keep": 9},
    "quiet": True,
}
TOKENIZER = Tokenizer(TINY)


def trained(folder: Path, name: str = "char_count", rollout: dict[str, Any] | None = None, **more: Any) -> RunReader:
    return gnomon.train(name, run=folder, **{**SMALL, **more, "rollout": {**SMALL["rollout"], **(rollout or {})}})


def failures(run: RunReader, before: int) -> dict[int, list[tuple[int, ...]]]:
    """The failed replies of earlier steps to whole prompts, by task."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for step in range(before):
        for group in run.groups(step=step):
            for rollout in group.rollouts:
                if not rollout.verdict.correct and not group.continued:
                    found.setdefault(group.index, []).append(rollout.turns[0].completion.token_ids)
    return found


def require_continued(group: Group, known: dict[int, list[tuple[int, ...]]]) -> None:
    """Every rollout continues one prefix of a known failure, is judged as a whole, and trains the continuation."""
    (prefix,) = {rollout.turns[0].prefix for rollout in group.rollouts}
    assert any(reply[: len(prefix)] == prefix and len(prefix) < len(reply) for reply in known[group.index])
    for rollout in group.rollouts:
        (turn,) = rollout.turns
        assert turn.prompt_ids[-len(prefix) :] == prefix
        assert len(prefix) + len(turn.completion.token_ids) <= 24
        whole = TOKENIZER.decode(prefix) + turn.completion.text
        assert CharCount().verify(group.task, whole).status is rollout.verdict.status
        if rollout.verdict.span is not None:
            assert turn.completion.text[slice(*rollout.verdict.span)] == rollout.verdict.extracted
    batch = pack([group], sampling=Sampling(max_tokens=24), exact=True)
    assert len(batch) == sum(rollout.tokens for rollout in group.rollouts)
    assert not batch.behavior_logp.isnan().any()


@pytest.mark.parametrize("lag", [0, 1])
def test_own_failures_are_continued_and_a_resumed_run_ends_the_same(tmp_path, lag):
    rollout = {"failure_prefix": 0.5, "lag": lag}
    with trained(tmp_path / "whole", rollout=rollout) as run:
        print_, seen = run.fingerprint, 0
        for step in range(run.steps):
            known = failures(run, step - lag)
            continued = [group for group in run.groups(step=step) if group.continued]
            assert len(continued) <= min(2, len(known)) and len(list(run.groups(step=step))) == 4
            seen += len(continued)
            for group in continued:
                require_continued(group, known)
        assert seen >= 4
        metrics = run.metrics()[-1]["metrics"]
        groups = list(run.groups(step=run.steps - 1))
        assert metrics["tokens"] == sum(r.tokens for group in groups for r in group.rollouts)
        plain = [r.reward for group in groups if not group.continued for r in group.rollouts]
        assert metrics["reward"] == pytest.approx(sum(plain) / len(plain))
    trained(tmp_path / "again", rollout=rollout, budget={"seconds": 1e-3}).close()
    while RunReader(tmp_path / "again").status != "finished":
        gnomon.resume(tmp_path / "again", quiet=True).close()
    assert RunReader(tmp_path / "again").fingerprint == print_
    found = replay(tmp_path / "whole", trust=True)
    assert found.judged and not found.flips


def test_failures_of_a_recorded_run_are_continued_from_the_first_step(tmp_path):
    """Of another group size, with a replay of other groups of it in the same step."""
    with trained(tmp_path / "source", rollout={"prompts": 16}) as source:
        known = failures(source, source.steps)
        rollout = {"failure_prefix": 1.0, "recorded": str(source.folder), "group": 3}
        with trained(tmp_path / "r", rollout=rollout, steps=2) as run:
            for step in range(run.steps):
                groups = list(run.groups(step=step))
                assert all(group.continued and len(group.rollouts) == 3 for group in groups)
                for group in groups:
                    require_continued(group, known)
        rollout = {"failure_prefix": 0.5, "recorded": str(source.folder), "replay": 0.25}
        with trained(tmp_path / "both", rollout=rollout, steps=1, objective="topr") as run:
            groups = list(run.groups(step=0))
            assert [g.continued for g in groups] == [True, True, False, False]
            assert [g.replayed is not None for g in groups] == [False, False, False, True]


@pytest.mark.parametrize(("reply", "text"), [("ab</answer>", "ab"), ("abc", "ab"), ("a", "")])
def test_a_reply_is_cut_before_the_text_that_ends_it(reply, text):
    ids = TOKENIZER.encode(reply)
    completion = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), text=reply, finish=Finish.STOP, version=0)
    failed = Rollout(
        task=Task(id="t", messages=(), answer=""),
        sample=0,
        turns=(Turn(prompt_ids=(2,), completion=completion),),
        verdict=Verdict(status=Status.WRONG, parts=()),
        stop=Stop.DONE,
    )
    found = [TOKENIZER.decode(ids[:cut]) for cut in cuts(failed, TOKENIZER, ["</answer>"])]
    assert found == [text[: size + 1] for size in range(len(text))]


@pytest.mark.parametrize(
    ("code", "name", "more"),
    [
        ("E165", "guess_number", {}),
        ("E165", "kuhn_poker", {}),
        ("E165", "char_count", {"objective": "verifree"}),
        ("E165", "char_count", {"objective": "dcpo"}),
        ("E077", "char_count", {"rollout": {"failure_prefix": 0.1}}),
    ],
)
def test_what_cannot_be_continued_is_refused(tmp_path, code, name, more):
    with pytest.raises((ConfigError, ConfigErrors), match=code):
        trained(tmp_path / "r", name, **{**more, "rollout": {"failure_prefix": 0.5, **more.get("rollout", {})}})
