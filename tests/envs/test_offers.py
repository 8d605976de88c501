"""What an environment offers beside its core is read by one function each, and a wrong type is named before a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import gnomon
from gnomon.envs import ENVS, CharCount, offers
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.types import Tool
from gnomon.verifiers import Price

TOOL, PRICE = Tool(name="add", description="adds"), Price(name="correct", weight=1.0)


@pytest.mark.parametrize(
    ("name", "right", "read"),
    [
        ("players", 3, 3),
        ("tools", [TOOL], (TOOL,)),
        ("isolation", ("jail",), ("jail",)),
        ("imports", (), ()),
        ("remarks", ["one", "two"], ("one", "two")),
        ("prices", (PRICE,), (PRICE,)),
        ("files", {"path": "a"}, {"path": "a"}),
        ("contents", {}, {}),
        ("reproducible", False, False),
        ("token_budgets", (3, 96), (3, 96)),
        ("praise", "well done", "well done"),
    ],
)
def test_an_offer_is_read(name, right, read):
    assert getattr(offers, name)(SimpleNamespace(**{name: right})) == read
    offers.require_offers(SimpleNamespace(**{name: right}))


ABSENT: dict[str, Any] = {
    "players": 1, "tools": (), "isolation": (), "imports": (), "remarks": (), "prices": None, "files": {},
    "contents": {}, "spec": None, "reproducible": True, "sentinel": None, "expert": None, "isomorphic": None,
    "difficulty": None, "token_budgets": None, "praise": "",
}  # fmt: skip


def test_what_is_not_offered_has_a_meaning():
    assert {reader.__name__: reader(SimpleNamespace()) for reader in offers.READERS} == ABSENT


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("players", 0),
        ("players", True),
        ("players", "two"),
        ("praise", 3),
        ("token_budgets", 3),
        ("token_budgets", (3,)),
        ("token_budgets", (0, 9)),
        ("token_budgets", (True, 9)),
        ("tools", "calculator"),
        ("tools", ["calculator"]),
        ("isolation", "jail"),
        ("imports", [1]),
        ("remarks", "one sentence"),
        ("prices", [1.0]),
        ("prices", PRICE),
        ("files", ["a"]),
        ("files", {"path": 1}),
        ("contents", {1: "a"}),
        ("spec", "name"),
        ("reproducible", "no"),
        ("sentinel", lambda task, reply: True),
        ("expert", "answers"),
        ("isomorphic", 1),
    ],
)
def test_a_wrong_type_is_an_error_that_names_the_attribute(name, wrong):
    with pytest.raises(ConfigError, match=rf"SimpleNamespace\.{name}\b") as caught:
        offers.require_offers(SimpleNamespace(**{name: wrong}))
    assert caught.value.code == "E028"


def test_a_property_that_breaks_is_not_an_absent_offer():
    class Broken:
        @property
        def tools(self) -> tuple[Tool, ...]:
            return self.missing  # type: ignore[attr-defined]

    with pytest.raises(ConfigError, match=r"Broken\.tools cannot be read"):
        offers.tools(Broken())


@pytest.mark.parametrize("name", [name for name in ENVS if name not in ("dataset",)])
def test_every_shipped_environment_offers_the_right_types(name):
    offers.require_offers(ENVS[name]())


def test_a_run_refuses_a_wrong_offer_before_it_starts(tmp_path):
    class Wrong(CharCount):
        remarks = "it should be a tuple"

    with pytest.raises((ConfigError, ConfigErrors), match=r"Wrong\.remarks"):
        gnomon.train(Wrong(), run=tmp_path / "r", steps=1, quiet=True)
    assert not (tmp_path / "r").exists()


def test_the_readers_are_all_that_reads_offers():
    """No other module asks an environment for an optional attribute by its name."""
    import re
    from pathlib import Path

    source = Path(gnomon.__file__).parent
    asked = re.compile(r"""(?:get|has)attr\(\w*(?:env|subject|verifier)\w*(?:\.\w+)*, "(\w+)\"""")
    found = {
        (path.name, name)
        for path in source.rglob("*.py")
        for name in asked.findall(path.read_text("utf-8"))
        if name in ABSENT
    }
    assert found == set()


@pytest.mark.parametrize(("former", "present"), [("seats", "players"), ("rungs", "isolation"), ("player", "expert")])
def test_an_environment_with_a_former_name_is_told_the_present_one(former, present):
    env = type("Old", (), {former: 2})()
    with pytest.raises(ConfigError, match=f"E028.*{former} is called {present} now"):
        offers.require_offers(env)
