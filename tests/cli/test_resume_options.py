"""Which settings of the recipe the options of `gnomon resume` replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.cli import resume
from gnomon.run import resume as run_resume

GIVEN = [
    ({}, {}),
    ({"address": ""}, {"address": ""}),
    ({"address": "auto"}, {"address": "auto"}),
    ({"launch": "local"}, {"type": "local"}),
    ({"launch": "ray", "address": "", "samplers": 3}, {"type": "ray", "address": "", "samplers": 3}),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "r"
    settings: Any = {"steps": 1, "rollout": {"prompts": 2, "group": 2, "max_tokens": 8}, "eval": {"tasks": 2}}
    gnomon.train("char_count", run=folder, quiet=True, **settings).close()
    return folder


@pytest.mark.parametrize(("options", "replaced"), GIVEN)
def test_options_replace_what_they_name_and_nothing_else(monkeypatch, run, options, replaced) -> None:
    """An empty address is an address, too: of a cluster that the run starts."""
    seen: list[Any] = []

    def resumed(folder: Path, *_: Any, launch: dict[str, Any], **__: Any) -> gnomon.RunReader:
        seen.append(launch)
        return gnomon.RunReader(folder)

    monkeypatch.setattr(run_resume, "resume", resumed)
    with pytest.raises(SystemExit, match="0"):
        resume(run, **options)
    assert seen == [replaced]
