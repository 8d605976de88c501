"""The table and the configuration know the same rows, with the same options and the same limits."""

from __future__ import annotations

import inspect

import pytest
from pydantic import ValidationError

from gnomon import config
from gnomon.config import OBJECTIVES, RunConfig, Source, leaves, overrides, resolve
from gnomon.errors import ConfigErrors
from gnomon.objectives import RENAMED, TABLE, objective
from gnomon.objectives.row import Data, Rewards

KINDS = {kind.model_fields["type"].default: kind for kind in OBJECTIVES}
WITHOUT_SETTING = {"grpo": {"reference_weight"}}
"""Options that a recipe writes as `regularize.kl`, for any objective."""
GIVEN = ["rollout.demonstrations=replies.jsonl"]


def test_every_row_has_its_settings_and_every_setting_its_row() -> None:
    assert set(KINDS) == set(TABLE) and len(KINDS) == len(OBJECTIVES)


def test_a_former_name_is_refused_with_the_present_one() -> None:
    """It was that of another algorithm, so it must not go on to mean this one."""
    assert config.RENAMED == RENAMED and set(RENAMED.values()) <= set(TABLE) and not set(RENAMED) & set(TABLE)
    for former, present in RENAMED.items():
        with pytest.raises(ValueError, match=f"now called '{present}'.*2405.19107"):
            objective(former)
        with pytest.raises(ConfigErrors, match=f"E013.*now called '{present}'"):
            resolve([overrides([f"objective={former}"])])


@pytest.mark.parametrize("name", TABLE)
def test_settings_are_the_arguments_of_the_row(name: str) -> None:
    fields = {field: info.default for field, info in KINDS[name].model_fields.items() if field != "type"}
    arguments = {key: value.default for key, value in inspect.signature(TABLE[name]).parameters.items()}
    assert set(arguments) - set(fields) == WITHOUT_SETTING.get(name, set())
    assert fields == {key: arguments[key] for key in fields}
    assert all(type(fields[key]) is type(arguments[key]) for key in fields)


@pytest.mark.parametrize("name", TABLE)
def test_a_run_builds_the_row_that_was_asked_for(name: str) -> None:
    kind = KINDS[name]
    if kind.unmet:
        with pytest.raises(ConfigErrors, match="no environment gives"):
            resolve([overrides([f"objective={name}", "rollout.group=8"])])
        return
    words = [f"objective={name}", f"rollout.group={kind.max_group or 8}", *(GIVEN if kind.demonstrated else [])]
    config, _ = resolve([overrides(words)])
    options = config.objective.model_dump()
    row = objective(options.pop("type"), **options)
    assert row.name == name and row.min_group == config.objective.min_group
    assert config.objective.binary == (row.rewards is Rewards.BINARY)
    assert config.objective.rewarded == (row.rewards is not Rewards.NONE)
    assert config.objective.demonstrated == (row.data in (Data.DEMONSTRATED, Data.MIXED))


@pytest.mark.parametrize("name", TABLE)
def test_limits_of_settings_are_limits_of_the_row(name: str) -> None:
    """What a setting refuses at its edge, and what it lets pass, the row does too; a band of zero width it may have."""
    kind = KINDS[name]
    for key, info in kind.model_fields.items():
        if key == "type" or not isinstance(info.default, int | float):
            continue
        for value in (-2, -1.0, 0, 0.0, 1, 1.0, 2.5):
            whole = isinstance(info.default, int)
            given = value if whole else float(value)
            try:
                kind(**{key: given})
            except ValidationError:
                if not (key.startswith("clip_") and value == 0) and not (key == "parameter" and value == -1):
                    with pytest.raises(ValueError):
                        objective(name, **{key: given})
            else:
                objective(name, **{key: given})


@pytest.mark.parametrize(("name", "option", "least"), [("pkpo_loo", "k", 5), ("maxrl_sub", "order", 4)])
def test_a_group_too_small_for_its_options_is_refused_before_the_run(name: str, option: str, least: int) -> None:
    words = [f"objective={name}", f"objective.{option}=4"]
    resolve([overrides([*words, f"rollout.group={least}"])])
    with pytest.raises(ConfigErrors, match="too small"):
        resolve([overrides([*words, f"rollout.group={least - 1}"])])


@pytest.mark.parametrize(("family", "parameter"), [("C", 8 / 7), ("D", -0.5)])
def test_a_parameter_that_the_family_cannot_have_is_refused_before_the_run(family: str, parameter: float) -> None:
    words = ["objective=rl2ml", f"objective.family={family}", "rollout.group=8"]
    resolve([overrides([*words, "objective.parameter=1.1"])])
    with pytest.raises(ConfigErrors, match=f"family {family}"):
        resolve([overrides([*words, f"objective.parameter={parameter}"])])


def test_the_default_objective_is_in_the_table() -> None:
    assert RunConfig().objective.model_dump()["type"] in TABLE
    assert resolve([Source({}, {})])[0] == RunConfig()


@pytest.mark.parametrize("name", TABLE)
def test_an_objective_brings_its_recipe_where_nothing_else_is_said(name: str) -> None:
    kind = KINDS[name]
    given = GIVEN if kind.demonstrated else []
    for key, value in kind.recipe.items():
        config, origins = resolve([overrides([f"objective={name}", *given])])
        assert leaves(config.model_dump())[key] == value and name in origins[key]
        if key == "rollout.group":
            continue  # It is what it must be.
        other = leaves(RunConfig().model_dump())[key]
        config, origins = resolve([overrides([f"objective={name}", f"{key}={other}", *given])])
        assert leaves(config.model_dump())[key] == other and "command line" in origins[key]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["objective=maxrl", "regularize.overlong=0.2"], "E042"),
        (["objective=verifree", "regularize.overlong=0.2"], "E042"),
        (["objective=luffy", *GIVEN, "rollout.refill=2"], "E043"),
        (["objective=fcp", "rollout.refill=2"], "E043"),
        (["objective=sft", *GIVEN, "rollout.candidates=2"], "E043"),
        (["objective=dapo", "rollout.candidates=2"], "E043"),
        (["objective=rloo", "rollout.offline=0.2"], "E044"),
    ],
)
def test_a_setting_that_an_objective_would_not_heed_is_refused(words: list[str], code: str) -> None:
    with pytest.raises(ConfigErrors, match=code):
        resolve([overrides(words)])
