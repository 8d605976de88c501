"""The summary of a run, with what other packages say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnomon.extensions import panels

if TYPE_CHECKING:
    from gnomon.store import RunReader

__all__ = ["summarise"]


def summarise(reader: RunReader) -> tuple[dict[str, Any], str]:
    """The summary of a run with what other packages say of it, as JSON values and as text."""
    from gnomon.comparison import change_card
    from gnomon.monitoring import failures
    from gnomon.reading.lines import spark
    from gnomon.reading.summary import summary, summary_text

    facts, added = summary(reader), [*failures.panel(reader), *change_card.panel(reader), *panels(reader)]
    text = "\n".join([summary_text(facts, spark), *(panel.text for panel in added if panel.text)])
    return facts | {panel.name: panel.facts for panel in added}, text
