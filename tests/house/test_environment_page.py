"""The environments that the page shows are as short as it promises, and pass the conformance suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gnomon.envs.check import check_env
from gnomon.run.find import env_class

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)


@pytest.mark.parametrize(("name", "most"), [("Remainder", 25), ("TwentyOne", 60)])
def test_an_environment_of_the_page_is_short_and_sound(name: str, most: int, tmp_path: Path) -> None:
    (text,) = [block for block in BLOCKS if f"class {name}(" in block]
    assert len(text.splitlines()) <= most
    (tmp_path / "shown.py").write_text(text)
    report = check_env(env_class(f"{tmp_path}/shown.py:{name}")(), tasks=60)
    assert report.passed, str(report)
