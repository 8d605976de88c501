"""Write docs/reference.md from the source: every setting, metric and error code.

    python docs/reference.py

A test holds the committed page to what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gnomon.metrics import EVALUATION, METRICS, TIMINGS
from gnomon.reference import faults, settings
from gnomon.store.columns import COLUMNS, TOKENS

PAGE = Path(__file__).parent / "reference.md"

HEAD = """\
# Reference

Every setting, metric and error code. `python docs/reference.py` writes this page from the source; `gnomon explain WORD`
prints one entry.

## Settings

Write a setting as `key=value` on the command line, or in a TOML recipe. Options of an environment are written
`env.NAME=…` ([gallery.md](gallery.md) lists them), options of an objective `objective.NAME=…` (the objective's page in
[objectives.md](objectives.md) lists them). `gnomon config show` prints the value of every setting, and its origin.
"""
KINDS = {
    "ConfigError": "The recipe or the command line",
    "VerifierError": "Verifiers and environments",
    "NumericsError": "Numbers",
    "ModelError": "Model folders",
    "RunError": "Run folders",
    "ResourceError": "Disk, memory and packages",
}


def page() -> str:
    """The whole page."""
    return "\n".join(
        [HEAD, *setting_lines(), "## Metrics\n", *metric_lines(), *column_lines(), "## Errors\n", *error_lines()]
    )


def setting_lines() -> Iterator[str]:
    yield "| setting | value | default | meaning |\n|---|---|---|---|"
    for setting in settings():
        name = " or ".join(f"`{word}`" for word in (setting.key, *setting.short))
        yield f"| {name} | {cell(setting.values)} | `{setting.default}` | {cell(setting.text)} |"
    yield ""


def metric_lines() -> Iterator[str]:
    yield "Of a step, in its record; `gnomon show RUN --json` prints the curves.\n"
    yield from table(METRICS)
    yield "Of an evaluation on held-out tasks:\n"
    yield from table(EVALUATION)
    yield "Of the clock, beside the records:\n"
    yield from table(TIMINGS)


def column_lines() -> Iterator[str]:
    yield "## Columns of rollouts\n"
    yield "Of `RunReader.frame()` and `gnomon export-rollouts`; a value that a run does not have is None.\n"
    yield from table({column.name: column.meaning for column in COLUMNS})
    yield "With token ids and log-probabilities (`tokens=True`, `--tokens`):\n"
    yield from table({column.name: column.meaning for column in TOKENS})


def table(meanings: Mapping[str, str]) -> Iterator[str]:
    yield "| name | meaning |\n|---|---|"
    for name, text in meanings.items():
        yield f"| `{name}` | {cell(text)} |"
    yield ""


def error_lines() -> Iterator[str]:
    yield "An error says what happened, where, why, and a fix. `…` stands for what depends on the case.\n"
    for kind, title in KINDS.items():
        yield f"### {title}\n\n| code | what | why | fix |\n|---|---|---|---|"
        for fault in faults():
            if fault.kind == kind:
                yield f"| {fault.code} | {plain(fault.what)} | {plain(fault.why)} | {plain(fault.fix)} |"
        yield ""


def cell(text: str) -> str:
    """Markdown that stays inside one cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def plain(text: str) -> str:
    """Text of a message, none of which is markup."""
    for sign in "\\*_`":
        text = text.replace(sign, f"\\{sign}")
    return cell(text).replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
