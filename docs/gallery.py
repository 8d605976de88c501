"""Write the page of the environments that ship from their code: what they ask, their options, what judges a reply.

    python docs/gallery.py      # docs/gallery.md

A test holds the committed page to what this writes.
"""

from __future__ import annotations

from pathlib import Path

from gnomon.envs import ENVS
from gnomon.envs.gallery import example, facts, judge_source, options

PAGE = Path(__file__).parent / "gallery.md"

HEAD = """\
# The environments that ship

Written by `python docs/gallery.py`. `gnomon env list` prints the table, `gnomon play NAME` asks you the questions, and
`gnomon check NAME` runs the conformance tests on it. How to write one: [environments.md](environments.md).

| environment | turns | players | reward | options |
|---|---|---|---|---|
{rows}

Answers stand in one slot `<answer>...</answer>`, those of `code` in one block of Python. A program plays `repair`.
In one turn, a right answer has the reward 1, and a wrong one that can be parsed has `format`. In several turns, a
player may give `retries` replies without a legal action, and a single player gets `speed` in addition to success.
`seed` determines the tasks.
"""

ENTRY = """\
## {name}

{summary}

```text
{shown}
```

What decides the reward:

```text
{source}
```
"""


def page() -> str:
    names = sorted(ENVS)
    return "\n".join([HEAD.format(rows="\n".join(map(row, names))), *map(entry, names)])


def row(name: str) -> str:
    fact = facts(name)
    low, high = fact["reward_range"]
    dials = ", ".join(f"`{option}` = {shown(value)}" for option, value in options(name).items())
    return f"| [{name}](#{name}) | {fact['turns']} | {fact['players']} | {low:g} … {high:g} | {dials} |"


def shown(value: object) -> str:
    return repr(value).replace("|", "\\|")


def entry(name: str) -> str:
    return ENTRY.format(
        name=name, summary=facts(name)["summary"], shown=example(name), source=judge_source(name)
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
