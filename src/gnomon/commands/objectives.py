"""Commands about objectives: `gnomon exact` and `objective`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gnomon.commands.completion import objective_names
from gnomon.commands.words import Json
from gnomon.errors import ConfigError
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["exact", "objective"]


def exact(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An objective.", autocompletion=objective_names)],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Options of the objective: gamma=0.9.")
    ] = None,
    group: Annotated[int, typer.Option(min=1, max=6, help="Rollouts per task.")] = 4,
    as_json: Json = False,
) -> None:
    """Compute the expected gradient of an objective by enumeration: target, bias, cosine, variance."""
    from gnomon.config import unknown_objective

    name = name.removeprefix("objective=")
    if problem := unknown_objective(name, "the command line"):
        raise problem
    from dataclasses import asdict

    from gnomon.objectives import objective as row_of
    from gnomon.theory import report as report_of

    try:
        report = report_of(row_of(name, **objective_options(name, options)), group=group)
    except ValueError as error:
        raise ConfigError("E031", str(error), where=f"--group {group}", fix=f"gnomon exact {name} --group 4") from error
    put(json.dumps(asdict(report), indent=1)) if as_json else say(str(report))


def objective(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An objective.", autocompletion=objective_names)
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Options of the objective: gamma=0.9.")
    ] = None,
    group: Annotated[
        int | None, typer.Option(min=1, help="Rollouts per task; default: 4 or the objective's minimum.")
    ] = None,
    compare: Annotated[str | None, typer.Option(metavar="OTHER", help="Show another objective beside it.")] = None,
    as_json: Json = False,
) -> None:
    """Describe an objective: its target, weight of hard prompts, effect on length, edge cases; or list all."""
    from gnomon.config import unknown_objective

    name = name and name.removeprefix("objective=")
    for word in (name, compare):
        if word is not None and (problem := unknown_objective(word, "the command line")):
            raise problem
    from gnomon.objectives import TABLE
    from gnomon.theory import card as cards
    from gnomon.theory.card_text import columns
    from gnomon.theory.comparison import comparison

    if name is None:
        rows = [build() for _, build in sorted(TABLE.items())]
        facts = [{"name": row.name, "expected_gradient": row.expected_gradient, "source": row.source} for row in rows]
        lines = columns([list(fact.values()) for fact in facts])
        put(json.dumps(facts, indent=1)) if as_json else say("\n".join(lines))
        return
    named_rows = [(name, objective_options(name, options) if options else {}), *([(compare, {})] if compare else [])]
    least = max(4, *(TABLE[each](**own).min_group for each, own in named_rows))
    try:
        reports = [cards(each, least if group is None else group, **own) for each, own in named_rows]
    except ValueError as error:
        words = [name, *(options or []), *(["--compare", compare] if compare else [])]
        fix = f"gnomon objective {' '.join(words)} --group {least}"
        raise ConfigError("E031", str(error), where=f"--group {group}", fix=fix) from error
    if as_json:
        facts = [card.as_dict() for card in reports]
        put(json.dumps(facts[0] if compare is None else facts, indent=1))
    else:
        say(str(reports[0]) if compare is None else comparison(*reports))


def objective_options(name: str, words: list[str] | None) -> dict[str, Any]:
    """The options of an objective. Raises: ConfigErrors for one that it does not take."""
    from gnomon.config import overrides, resolve

    keys = [f"objective.{word.removeprefix('objective.')}" if "=" in word else word for word in words or []]
    return resolve([overrides([f"objective={name}", *keys])])[0].objective.options
