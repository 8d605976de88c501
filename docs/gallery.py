"""Write the page of the environments that ship from their code: what they ask, their options, what judges a reply.

    python docs/gallery.py      # docs/gallery.md

A test holds the committed page to what this writes.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

from gnomon.envs import ENVS, SingleTurn
from gnomon.envs.gallery import facts, judge_source, options, samples, transcript

PAGE = Path(__file__).parent / "gallery.md"

HEAD = """\
# The environments that ship

Written by `python docs/gallery.py`. `gnomon env list` prints the table, `gnomon play NAME` asks you the questions, and
`gnomon check NAME` holds one to what every environment must do. How to write one: [environments.md](environments.md).

| environment | turns | players | reward | options |
|---|---|---|---|---|
{rows}

Every answer stands in one slot `<answer>...</answer>`, that of `code` in one block of Python. The reward of one turn is
1 for a right answer and, where `format` says so, something for one that can be read. Of several turns, a player is
forgiven `retries` replies without a legal move, and a lone one is paid `speed` on top of success. `seed` draws the
tasks.
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
    if issubclass(ENVS[name], SingleTurn):
        lines = [f"{prompt}\n{indent(answer, '    ')}" for prompt, answer in samples(name)]
    else:
        lines = transcript(name, 1)
    return ENTRY.format(name=name, summary=facts(name)["summary"], shown="\n".join(lines), source=judge_source(name))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
