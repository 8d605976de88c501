"""What the page of a rollout shows; replies as Markdown, without anything that could load, run or restyle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from gnomon.envs import ENVS
from gnomon.envs.turns import MultiTurn
from gnomon.reading.address import Address, address_in, rollout_records
from gnomon.reading.program import ending, origin, tree
from gnomon.reading.reasons import advantage_reason, verdict_reason
from gnomon.reading.rollouts import rollout
from gnomon.store import Record, RunReader
from gnomon.store.codec import text_of
from gnomon.terminal import printable
from gnomon.viewer.facts import group_rows
from gnomon.viewer.tokens import CHANNELS, absent, legend, spans, tokenizer_of, turn_tokens

__all__ = ["markdown", "rollout_facts"]

PIECE = 50_000
"""Characters of a text that one page shows; the rest is a link away."""


def rollout_facts(reader: RunReader, address: Address, channel: str, begin: int, *, rendered: bool) -> dict[str, Any]:
    """Args: channel: of `CHANNELS`, the first one for any other; begin: the first character of each text; rendered:
    whether replies are shown as Markdown. Raises: RunError E409 where the run has no such rollout."""
    channel = channel if channel in CHANNELS else next(iter(CHANNELS))
    address = address_in(reader, address)
    facts = rollout(reader, address)
    group = list(rollout_records(reader, address))
    task_record = Record(kind="task", step=address.step, task=address.task, body=facts["asked"])
    record = next(record for record in group if record.sample == address.sample)
    tier, held_out = str(reader.manifest.get("tier", "")), address.kind != "rollout"
    tokens = turn_tokens(task_record, record, tokenizer_of(reader), tier)
    turns = facts.get("turns", [{"messages": facts["asked"]["messages"], **facts}])
    boards = boards_of(reader.manifest.get("env", {}).get("type", ""), turns)
    samples = [record.sample for record in group]
    at = samples.index(address.sample)
    return {
        "facts": facts,
        "program": facts.get("program"),
        "ended": ending(facts["program"]) if "program" in facts else "",
        "tree": list(tree(facts["program"])) if "program" in facts else [],
        "place": address,
        "why": verdict_reason(record.body, facts["asked"]),
        "credit": advantage_reason(record.body, [each.body["reward"] for each in group], held_out=held_out),
        "turns": [
            {
                **turn,
                "board": boards[number] if boards else "",
                "origin": origin(facts["program"], number) if "program" in facts else "",
                "spans": spans(tokens_of_turn, channel),
                "count": len(tokens_of_turn),
                "markdown": markdown(turn["reply"][begin : begin + PIECE]) if rendered else "",
            }
            for number, (turn, tokens_of_turn) in enumerate(zip(turns, tokens or [[] for _ in turns], strict=True))
        ],
        "board": boards[-1] if boards else "",
        "channels": CHANNELS,
        "channel": channel,
        "following": after(channel),
        "legend": legend(channel),
        "note": absent(record.body, channel, tier, held_out),
        "group": group_rows(group, facts["asked"]),
        "previous": neighbour(address, samples, at - 1),
        "next": neighbour(address, samples, at + 1),
        "begin": begin,
        "piece": PIECE,
        "rendered": rendered,
    }


def boards_of(env: str, turns: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """The positions of a game that ships, as `MultiTurn.boards`; empty for everything else."""
    game = ENVS.get(env)
    if game is None or not issubclass(game, MultiTurn):
        return ()
    return game.boards([("\n".join(map(text_of, turn["messages"])), turn["reply"]) for turn in turns])


def after(channel: str) -> str:
    """The channel that follows another one."""
    names = [*CHANNELS]
    return names[(names.index(channel) + 1) % len(names)]


def neighbour(address: Address, samples: Sequence[int | None], at: int) -> str:
    """The address of another rollout of the group; empty where the group has none there."""
    if not 0 <= at < len(samples):
        return ""
    return str(Address(address.kind, address.step, address.task, samples[at], address.attempt))


LEFT_OUT = ["html_block", "html_inline", "link", "image", "autolink", "reference", "entity"]


@cache
def parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable(LEFT_OUT)


def markdown(text: str) -> Markup:
    """A text of Markdown as HTML. Its headings are below those of the page, and tables are aligned by the page."""
    tokens = parser().parse(printable(text.expandtabs(4)))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h4"
        token.attrs.pop("style", None)
    return Markup(parser().renderer.render(tokens, parser().options, {}))
