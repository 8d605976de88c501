"""Which settings enter the first record of a run, and so its fingerprint, as their declarations say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gnomon.config import RunConfig
from gnomon.config.sections import Bytes, Section, chain_settings
from gnomon.objectives import OPTIONS
from gnomon.run.find import make_env
from gnomon.run.manifest import opening

OTHER: dict[str, Any] = {
    "policy.device": "cpu", "policy.activation_checkpointing": True, "rollout.seconds": 5.0, "workers.count": 4,
    "budget.seconds": 9.0, "save": {"every": 2}, "audit": {"acknowledge": ["rule"]}, "launch": {"samplers": 3},
    "rollout.order_seed": 1, "rollout.lag": 1, "rollout.recorded": "runs/a", "rollout.replay": 0.5,
    "rollout.failure_prefix": 0.5, "rollout.curriculum": "easiest", "rollout.in_flight": True, "rollout.entropy": True,
    "rollout.top_p": 0.9, "rollout.top_k": 5, "policy.vision": "trained",
    "optim.type": "sgd", "optim.states": "8bit", "optim.momentum": 0.5, "optim.micro_batch": 64,
    "eval.sets": {"other": {}},
}  # fmt: skip
"""Another value of each marked setting; policy.path is always named, by the hashes of its files."""


def marked(section: Section, above: str = "") -> Iterator[tuple[str, Bytes]]:
    for name, field in type(section).model_fields.items():
        yield from ((above + name, mark) for mark in field.metadata if isinstance(mark, Bytes))
        if isinstance(value := getattr(section, name), Section):
            yield from marked(value, f"{above}{name}.")


MARKED = dict(marked(RunConfig()))


def test_every_marked_setting_is_tried_here() -> None:
    assert set(MARKED) == {*OTHER, "policy.path"}


@pytest.mark.parametrize("key", OTHER)
def test_a_setting_enters_as_it_declares(key: str) -> None:
    table, _, name = key.rpartition(".")
    values = {table: {name: OTHER[key]}} if table else {name: OTHER[key]}
    usual, changed = chain_settings(RunConfig()), chain_settings(RunConfig.model_validate(values))
    if MARKED[key] is Bytes.NEVER:
        assert usual == changed
    else:
        assert (
            name not in usual[table]
            and changed[table][name] == RunConfig.model_validate(values).model_dump()[table][name]
        )
        del changed[table][name]
        assert usual == changed


def test_processes_and_limits_of_time_do_not_change_the_first_record() -> None:
    one = RunConfig.model_validate({"env": {"type": "char_count"}})
    other = RunConfig.model_validate(
        {"env": {"type": "char_count"}, "budget": {"seconds": 5.0}, "workers": {"count": 3}, "learner": "http://a:1"}
    )
    env = make_env(one.env)
    assert opening(one, env) == opening(other, env)


def test_an_option_that_is_younger_than_its_row_enters_where_it_is_set() -> None:
    """So a run of the row has the fingerprint that it had before the option."""
    younger = {(name, option): declared for name, row in OPTIONS.items() for option, declared in row.options.items()}
    younger = {key: option for key, option in younger.items() if option.if_set}
    assert {("opo", "baseline"), ("gfpo", "by"), ("ppo", "value_steps")} <= younger.keys()
    for (name, key), option in younger.items():
        usual = chain_settings(RunConfig.model_validate({"objective": {"type": name}}))["objective"]
        other = next((value for value in option.choices if value != option.default), 5)
        assert key not in usual
        changed = chain_settings(RunConfig.model_validate({"objective": {"type": name, key: other}}))["objective"]
        assert changed == {**usual, key: other}
