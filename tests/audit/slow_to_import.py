"""A module that takes longer to import than a verdict may take."""

from __future__ import annotations

import time

end = time.process_time() + 1.2
while time.process_time() < end:
    pass
