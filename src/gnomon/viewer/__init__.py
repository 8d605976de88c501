"""`gnomon view`: run folders as web pages on this machine, from the curve to the text that the model wrote."""

from __future__ import annotations

from gnomon.viewer.app import application
from gnomon.viewer.serve import Viewer

__all__ = ["Viewer", "application"]
