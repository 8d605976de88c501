"""Imported where workers are forked: this host's sandbox is attacked here once, and no worker has to try it again."""

from __future__ import annotations

from gnomon.sandbox import capabilities

# A host that cannot confine is refused where a sandbox is opened, with what mends it.
capabilities(("sandbox",), unsafe=True)
