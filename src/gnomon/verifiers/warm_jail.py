"""Imported where workers are forked: this host's jail is attacked here once, and no worker has to try it again."""

from __future__ import annotations

from gnomon.jail import capabilities

# A host that cannot confine is refused where a jail is opened, with what mends it.
capabilities(("jail",), unsafe=True)
