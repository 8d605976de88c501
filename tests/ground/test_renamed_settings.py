"""A setting that was renamed: refused with its present name, and understood in the recipe of a run folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gnomon.config import DEFAULTS, RunConfig, Source, leaves, load, overrides, recorded, resolve, to_toml
from gnomon.config.sources import RENAMED, VALUES
from gnomon.errors import ConfigErrors
from gnomon.objectives.options import OPTIONS

FORMER = {present: former for former, present in RENAMED.items()}


def former_recipe() -> str:
    """The default recipe as it was written before anything was renamed, with a former objective."""
    import tomli_w

    config, _ = resolve([Source({"objective": "kimi_k15"}, {})])
    values: dict[str, dict[str, object] | object] = {}
    for key, value in leaves(config.model_dump()).items():
        table, _, name = FORMER.get(key, key).rpartition(".")
        former = next((old for old, new in VALUES.get(key, {}).items() if new == value), value)
        if table:
            values.setdefault(table, {})[name] = former  # type: ignore[index]
        else:
            values[name] = former
    return tomli_w.dumps(values)


def test_present_names_exist_and_former_ones_do_not() -> None:
    keys = set(leaves(DEFAULTS))
    assert set(RENAMED.values()) <= keys and not RENAMED.keys() & keys and len(FORMER) == len(RENAMED)
    assert set(VALUES) <= keys
    assert set(VALUES["objective.type"].values()) <= set(OPTIONS)
    for former in VALUES["players.baseline"]:
        with pytest.raises(ConfigErrors, match="E011"):
            resolve([overrides([f"players.baseline={former}"])])


@pytest.mark.parametrize("former", RENAMED)
def test_a_former_name_is_refused_with_the_present_one(former: str, tmp_path: Path) -> None:
    table, _, name = former.rpartition(".")
    (tmp_path / "r.toml").write_text(f"seed = 1\n[{table}]\n{name} = 3\n")
    for source, where in ((overrides([f"{former}=3"]), "argument 1"), (load(tmp_path / "r.toml"), "r.toml, line 3")):
        with pytest.raises(ConfigErrors) as caught:
            resolve([source])
        (told,) = caught.value.errors
        assert told.code == "E012" and f"now called {RENAMED[former]}" in told.what and where in told.where


def test_a_former_recipe_is_read_from_a_run_folder_and_refused_as_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(former_recipe())
    text = path.read_text()
    assert "[seats]" in text and "floor = 0.1" in text and 'type = "dro"' in text and 'baseline = "seat"' in text
    config, origins = resolve([recorded(path)])
    assert config == resolve([Source({"objective": "kimi_k15"}, {})])[0]
    assert "line" in origins["optim.min_lr_ratio"]
    with pytest.raises(ConfigErrors) as caught:
        resolve([load(path)])
    assert {error.code for error in caught.value.errors} == {"E012", "E013"}
    assert len(caught.value.errors) == len(RENAMED) + 1


def test_a_recipe_of_today_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(RunConfig()))
    assert recorded(path).values == load(path).values == tomllib.loads(path.read_text())
