"""The table of options: what it declares is what a row is built with, what a recipe may set, and what is refused."""

from __future__ import annotations

import inspect
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from objective_steps import EDGE_STEPS

import gnomon
from gnomon.config import Objective, RunConfig, Source, leaves, overrides, resolve
from gnomon.errors import ConfigErrors
from gnomon.objectives import OPTIONS, REFUSED, RENAMED, TABLE, Need, Option, OptionError, Rewards, in_family, objective
from gnomon.objectives.declaration import Declaration
from gnomon.objectives.row import row_of
from gnomon.theory import card

SHOWN = ["rollout.demonstrations=replies.jsonl"]
TINY = 1e-9


def edges(option: Option) -> tuple[list[Any], list[Any]]:
    """Values at and just inside every limit of an option, and values just beyond each or of another type."""
    if option.choices:
        return list(option.choices), ["", "LINEAR", 0, None]
    whole = isinstance(option.default, int)
    step = 1 if whole else TINY
    inside: list[Any] = [option.default]
    beyond: list[Any] = [math.nan, -math.inf, True, None, "wide", [option.default]]
    beyond += [2.5, float(option.default)] if whole else []
    if option.least is not None:
        inside, beyond = [*inside, option.least], [*beyond, option.least - step]
    if option.above is not None:
        inside, beyond = [*inside, option.above + TINY], [*beyond, option.above]
    if option.below is not None:
        inside, beyond = [*inside, option.below - TINY], [*beyond, option.below]
    if option.most is not None:
        inside = [*inside, option.most]
    if option.most != math.inf:
        beyond = [*beyond, math.inf, *([option.most + step] if option.most is not None else [])]
    return inside, beyond


def test_every_row_is_declared_once_and_every_declaration_is_built() -> None:
    assert set(OPTIONS) == set(TABLE)
    assert all(row.name == name for name, row in OPTIONS.items())
    assert RunConfig().objective.type in OPTIONS
    for name, row in OPTIONS.items():
        assert row.summary.endswith(".") and row.source and all(option.text for option in row.options.values())
        assert {key: value.default for key, value in inspect.signature(TABLE[name]).parameters.items()} == {
            key: option.default for key, option in row.options.items()
        }
        assert row.summary in (TABLE[name].__doc__ or "")
        for word in row.options:
            assert row.options[word].takes(row.options[word].default), (name, word)


EVERY = [(row, name, option) for row in OPTIONS.values() for name, option in row.options.items()]


def test_an_option_is_taken_up_to_its_limits() -> None:
    """By the row and by a recipe. At a limit every coefficient is finite."""
    step = EDGE_STEPS["mixed"]
    for row, name, option in EVERY:
        for value in edges(option)[0]:
            case = f"{row.name} {name}={value}"
            if case == "rl2ml parameter=-1":
                continue  # Families B and C alone have it.
            built = objective(row.name, **{name: value})
            settings = Objective(type=row.name, **{name: value}).options
            assert settings == row.complete({name: value}) and type(settings[name]) is type(option.default), case
            if built.rewards is Rewards.REAL and built.min_group <= len(step.rewards[0]):
                assert torch.isfinite(built.coefficients(step.tokens(built), step.denominators())).all(), case


def test_an_option_is_refused_beyond_its_limits() -> None:
    """By the row and by a recipe, in the same words."""
    for row, name, option in EVERY:
        for value in edges(option)[1]:
            said = f"{name} is {value!r}; it must be {option.requirement}"
            with pytest.raises(OptionError, match=re.escape(said)):
                TABLE[row.name](**{name: value})
            place = {f"objective.{name}": "recipe.toml, line 3"}
            with pytest.raises(ConfigErrors) as caught:
                resolve([Source({"objective": {"type": row.name, name: value}}, place)])
            told = next(error for error in caught.value.errors if error.code == "E011")
            assert (told.where, told.what) == ("recipe.toml, line 3", f"objective.{said}")
            assert told.fix == f"objective.{name}={option.default}, the default"


def test_every_mistake_of_a_call_is_named_with_what_was_meant() -> None:
    both = r"clip_low is -1; it must be a number ≥ 0.*did you mean clip_high \(default 0.2\)"
    with pytest.raises(ValueError, match=both):
        gnomon.objective("grpo", clip_low=-1, clip_hi=0.3)
    with pytest.raises(ValueError, match=r"rloo has no option clip_low .leave it out; it has no options"):
        gnomon.objective("rloo", clip_low=0.3)
    with pytest.raises(ValueError, match=r"unknown objective 'dr-grpo' .did you mean dr_grpo"):
        gnomon.objective("dr-grpo")
    with pytest.raises(ConfigErrors) as caught:
        resolve(
            [
                overrides(
                    ["objective=grpo", "objective.epsilon_high=0.3", "objective.clip_hi=1", "objective.epsilon.x=1"]
                )
            ]
        )
    fixes = ["objective.clip_high=0.3", "objective.clip_high=1"]
    assert [error.code for error in caught.value.errors] == ["E012", "E012", "E011"]
    assert [error.fix for error in caught.value.errors][:2] == fixes
    assert all("argument" in error.where for error in caught.value.errors)


def test_a_former_name_is_refused_with_the_present_one() -> None:
    """And with the option that makes it what the name was. The fix can be pasted."""
    assert not set(RENAMED) & set(TABLE)
    for name, former in RENAMED.items():
        assert former.row in TABLE and objective(former.row, **former.options).name == former.row
        with pytest.raises(ValueError, match=re.escape(f"now {former.words}: {former.why}")):
            objective(name)
        with pytest.raises(ConfigErrors, match=re.escape(f"now {former.words}")) as caught:
            resolve([overrides([f"objective={name}"])])
        (error,) = caught.value.errors
        teacher = ["policy.reference=teacher"] if former.row == "opd" else []
        config, _ = resolve([overrides([*error.fix.split(), *teacher])])
        assert error.code == "E013" and config.objective.type == former.row


def test_refused_names_and_the_table_of_names_agree() -> None:
    """A loss of another trainer that has no row is refused by name, and a refused name has no row on the page."""
    page = (Path(__file__).parents[2] / "docs/objective-names.md").read_text()
    assert set(re.findall(r"^\| `(?:loss_\w+=)?(\w+)` \| none \|", page, re.MULTILINE)) == set(REFUSED)
    for name in REFUSED:
        assert not re.findall(rf"^\| [^|]*\b{name}`[^|]* \| (?!none)", page, re.MULTILINE)


def test_an_objective_that_no_row_can_be_is_refused_with_the_reason() -> None:
    assert not set(REFUSED) & set(TABLE)
    for name, (instead, reason) in REFUSED.items():
        assert instead in TABLE
        with pytest.raises(ValueError, match=f"there is no objective '{name}': {reason}; take {instead}"):
            objective(name)
        with pytest.raises(ConfigErrors) as caught:
            resolve([overrides([f"objective={name}"])])
        (error,) = caught.value.errors
        assert (error.code, error.why, error.fix) == ("E013", reason, f"objective={instead}")


def test_a_run_builds_every_row_with_what_comes_with_it() -> None:
    for name, row in OPTIONS.items():
        teacher = ["policy.reference=teacher"] if Need.TEACHER in row.needs else []
        words = [f"objective={name}", *(SHOWN if row.demonstrated else []), *teacher]
        config, origins = resolve([overrides(words)])
        assert config.objective.options == row.complete({}), name
        built = objective(name, **config.objective.options)
        assert built.min_group == config.objective.min_group and built.needs == row.needs_with(row.complete({}))
        for key, value in row.brings.items():
            assert leaves(config.model_dump())[key] == value and name in origins[key]
            if key != "rollout.group":  # That is what it must be.
                other = leaves(RunConfig().model_dump())[key]
                config_, origins_ = resolve([overrides([*words, f"{key}={other}"])])
                assert leaves(config_.model_dump())[key] == other and "command line" in origins_[key]


def test_an_option_may_ask_for_more_and_for_larger_groups() -> None:
    assert (
        objective("reinforce_pp", beta=0.1).asks == {Need.LOGP, Need.REFERENCE} and not objective("reinforce_pp").asks
    )
    based = partial(objective, "reinforce_pp", baseline="group")
    assert based(beta=0.1).min_group == 1 != based().min_group
    for name, option, least in (("pkpo_loo", "k", 5), ("maxrl_sub", "order", 4)):
        words = [f"objective={name}", f"objective.{option}=4"]
        assert resolve([overrides([*words, f"rollout.group={least}"])])[0].objective.min_group == least
        with pytest.raises(ConfigErrors, match="too small"):
            resolve([overrides([*words, f"rollout.group={least - 1}"])])


@pytest.mark.parametrize(("family", "parameter"), [("A", -1.0), ("C", 8 / 7), ("D", -0.5)])
def test_a_parameter_that_the_family_cannot_have_is_refused_before_the_run(family: str, parameter: float) -> None:
    words = ["objective=rl2ml", f"objective.family={family}", "rollout.group=8"]
    resolve([overrides([*words, "objective.parameter=1.1"])])
    assert in_family(family, 1.1, 8) and not in_family(family, parameter, 8)
    with pytest.raises(ConfigErrors, match=f"family {family}"):
        resolve([overrides([*words, f"objective.parameter={parameter}"])])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["objective=maxrl", "regularize.overlong=0.2"], "E042"),
        (["objective=verifree", "regularize.overlong=0.2"], "E042"),
        (["objective=verifree", "rollout.refill=2"], "E043"),
        (["objective=sft", *SHOWN, "rollout.refill=2"], "E043"),
        (["objective=sft", *SHOWN, "rollout.candidates=2"], "E043"),
        (["objective=dapo", "rollout.candidates=2"], "E043"),
        (["objective=rloo", "rollout.offline=0.2"], "E044"),
        (["objective=rloo", *SHOWN], "E035"),
        (["objective=luffy"], "E035"),
    ],
)
def test_a_setting_that_an_objective_would_not_heed_is_refused(words: list[str], code: str) -> None:
    with pytest.raises(ConfigErrors, match=code):
        resolve([overrides(words)])


def test_options_follow_the_last_objective_that_is_named() -> None:
    first = Source({"objective": {"type": "grpo", "clip_low": 0.1}}, {})
    config, _ = resolve([first, overrides(["objective.clip_high=1"])])
    assert config.objective.options == {
        "clip_low": 0.1, "clip_high": 1.0, "epsilon": 1e-6, "deviation": "population"
    }  # fmt: skip
    config, _ = resolve([first, overrides(["objective=dapo"])])
    assert config.objective.options == {"clip_low": 0.2, "clip_high": 0.28, "epsilon": 1e-6}
    assert RunConfig(objective={"type": "gspo"}).objective.options["clip_high"] == 4e-4  # type: ignore[arg-type]


def test_a_function_takes_what_is_declared_and_nothing_else() -> None:
    declaration = Declaration("own", "Mine.", "here", {"weight": Option(1.0, "what it weighs", least=0)})
    with pytest.raises(TypeError, match="the parameters of own are not its options: weight"):
        row_of(declaration, lambda other: objective("rloo"))
    with pytest.raises(TypeError, match="own has 1 options, and 2 are given"):
        row_of(declaration, lambda weight: objective("rloo"))(1.0, 2.0)
    built = row_of(declaration, lambda weight: objective("rloo"))(2)
    assert (built.name, built.source, built.min_group) == ("own", "here", 2)


def test_pages_and_cards_and_the_editor_say_what_the_table_says() -> None:
    settings = (Path(gnomon.__file__).parent / "settings.py").read_text()
    for name, row in OPTIONS.items():
        assert f'    "{name}",\n' in settings
        page = (Path(__file__).parents[2] / f"docs/objectives/{name}.md").read_text()
        for option, declared in row.options.items():
            assert f"    {option}: " in settings
            assert f"| `{option}` = {declared.default} | {declared.text}; {declared.values_in_words} |" in page
    assert card("sapo").options is OPTIONS["sapo"].options
