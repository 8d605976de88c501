"""The samplers of a run in a Ray cluster. Only this package imports Ray, when it is used."""

from __future__ import annotations

import os
import sys

from gnomon.import_path import library_first

sys.path[:] = library_first(sys.path, [os.getcwd()])  # In its workers, Ray puts the working folder first.
