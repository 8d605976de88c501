"""Test this host's sandbox once, in the process that forks the workers, so that workers need not repeat the test."""

from __future__ import annotations

from gnomon.sandbox import capabilities

# A host without confinement is refused when a sandbox is opened; that error names the fix.
capabilities(("sandbox",), unsafe=True)
