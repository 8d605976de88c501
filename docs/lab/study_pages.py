"""Write the pages on the studies that ship, from what came out of them: one each, an index, the claims, the questions.

    python docs/lab/study_pages.py           # study-results.md, claims.md, questions.md and studies/*, here
    python docs/lab/study_pages.py studies   # first take over the studies that were finished in this folder

A test holds the committed pages to what this writes.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon_lab.studies.listing import Listed, by_chance, list_studies, publish
from gnomon_lab.studies.page import page_text, planned_text, write_plots

DOCS = Path(__file__).parent
NOWHERE = Path("/nonexistent")
INDEX = """\
# Studies and their verdicts

Each row is a study: one file in `lab/src/gnomon_lab/studies/library`, which one command runs. The file is registered
before the first run, and fixed rules derive the verdict from its pass lines ([how](studies.md)). FAIL means that a
pass line was not met. INCONCLUSIVE means that these seeds cannot decide the question. A verdict is withdrawn if every
number that the study measured is 0: no arm was ever rewarded, so the pass lines compare nothing. Studies with these
verdicts stay on the list. `python docs/lab/study_pages.py` writes this page and the pages that it links to.

{by_chance}

| verdict | question | command | seeds | last run |
|---|---|---|---|---|
{rows}
"""
CLAIMS = """\
# Claims and their verdicts

What papers, documentation and guides say about reinforcement learning of language models, and the studies that test it
here: by calculation or with the [tiny policy](base.md), and beside it with SmolLM2, a pretrained model. PASS means that
every pass line of the study was met, FAIL that one was not, INCONCLUSIVE that these seeds cannot decide. A FAIL means
that the claim was not found here. It does not refute a result with another model. `docs/lab/claims.toml` lists the
claims. `python docs/lab/study_pages.py` writes this page from it and from the [results](study-results.md).

{counts}

| claim | source | calculation, tiny policy | SmolLM2 |
|---|---|---|---|
{rows}
"""
QUESTIONS = """\
# Open questions

Questions of people who train language models by reinforcement learning, and the studies that put them to a small model.
Most studies train the [tiny policy](base.md), which has 0.82 million weights and was pretrained on calculations and
letters. An effect that is found there may be absent in a large model, and the reverse. The last column names the most
important limits. `docs/lab/questions.toml` lists the questions, and `python docs/lab/study_pages.py` writes this page.

{counts}

| question | verdict of each study | what the studies cannot show |
|---|---|---|
{rows}
"""


def pages() -> dict[str, str]:
    """The text of every page, by its path below `docs/lab`."""
    rows = list_studies(NOWHERE)
    table = "\n".join(map(line, rows))
    index = INDEX.format(by_chance=by_chance(rows), rows=table)
    claims = tomllib.loads((DOCS / "claims.toml").read_text())["claim"]
    questions = tomllib.loads((DOCS / "questions.toml").read_text())["question"]
    lists = {
        "study-results.md": index,
        "claims.md": claims_text(claims, rows),
        "questions.md": questions_text(questions, rows),
    }
    return lists | {f"studies/{row.name}.md": page(row) for row in rows}


def claims_text(claims: Sequence[Mapping[str, Any]], rows: Sequence[Listed]) -> str:
    """The page on the claims. Raises: KeyError for a claim with a study that does not ship."""
    lines = []
    for claim in claims:
        studies = studies_of(claim, rows)
        small, real = (links([study for study in studies if study.pretrained is kind]) for kind in (False, True))
        lines.append(f"| {claim['says']} | {claim['source']} | {small if studies else 'no study'} | {real} |")
    counts = f"{decided(claims, rows)} of {len(claims)} claims have a study with a verdict."
    return CLAIMS.format(counts=counts, rows="\n".join(lines))


def questions_text(questions: Sequence[Mapping[str, Any]], rows: Sequence[Listed]) -> str:
    """The page on the open questions. Raises: KeyError for a question with a study that does not ship."""
    lines = [
        f"| {asked['asks']} | {links(studies_of(asked, rows)) or 'no study'} | {asked['limits']} |"
        for asked in questions
    ]
    counts = f"{decided(questions, rows)} of {len(questions)} questions have a study with a verdict."
    return QUESTIONS.format(counts=counts, rows="\n".join(lines))


def studies_of(entry: Mapping[str, Any], rows: Sequence[Listed]) -> list[Listed]:
    named = {row.name: row for row in rows}
    return [named[name] for name in entry["studies"]]


def decided(entries: Sequence[Mapping[str, Any]], rows: Sequence[Listed]) -> int:
    """How many entries have a study with a verdict."""
    return sum(any(study.counts for study in studies_of(entry, rows)) for entry in entries)


def links(studies: Sequence[Listed]) -> str:
    """The verdict of each study, with a link to its page."""
    return "<br>".join(f"{study.verdict}: [{study.study.question}](studies/{study.name}.md)" for study in studies)


def line(row: Listed) -> str:
    link = f"[{row.study.question}](studies/{row.name}.md)"
    return f"| {row.verdict} | {link} | `{row.command}` | {row.seeds} | {row.date} |"


def page(row: Listed) -> str:
    """The page of a study, with the command that repeats it."""
    if row.result is None:
        return f"{planned_text(row.study)}\nRun it: `{row.command}`\n"
    repeat = f"Repeat it: `{row.command}`. Last run on {row.date}; SHA-256 of the registered file:"
    return f"{page_text(row.study, row.result, stem=row.name)}\n{repeat}\n`{row.result['sha256']}`.\n"


def main() -> None:
    if len(sys.argv) > 1:
        print("\n".join(publish(Path(sys.argv[1]))))
    (DOCS / "studies").mkdir(exist_ok=True)
    written = pages()
    for path, text in written.items():
        (DOCS / path).write_text(text)
    for row in list_studies(NOWHERE):
        if row.result is not None:
            write_plots(DOCS / "studies" / row.name, row.study, row.result)
    for stale in (DOCS / "studies").glob("*.md"):
        if f"studies/{stale.name}" not in written:
            stale.unlink()


if __name__ == "__main__":
    main()
