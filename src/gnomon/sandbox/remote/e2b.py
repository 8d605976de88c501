"""Runs in sandboxes of E2B, one per run. Source: package e2b 2.63, `Sandbox.create`, `files.write`, `commands.run`."""

from __future__ import annotations

import os

from gnomon.sandbox.job import Limits
from gnomon.sandbox.remote.base import Elsewhere, Reply, import_package, refusal

__all__ = ["E2BRunner"]


class E2BRunner(Elsewhere):
    """Micro-VMs without internet. Args: template: must contain `python3` 3.11 or newer; empty for E2B's default.

    Raises: ResourceError E523 without the package, E524 without a key.
    """

    def __init__(self, template: str = "", workers: int = 4, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self.template = template
        self.package = import_package("e2b", "e2b")
        if not os.environ.get("E2B_API_KEY"):
            raise refusal("E2B", "There is no key in the environment.", "export E2B_API_KEY=e2b_...")

    def execute(self, script: str, timeout: float) -> Reply:
        create = self.package.Sandbox.create
        sandbox = create(template=self.template or None, timeout=int(timeout) + 60, allow_internet_access=False)
        try:
            sandbox.files.write("/tmp/gnomon_job.py", script)
            return Reply(sandbox.commands.run("python3 /tmp/gnomon_job.py", timeout=timeout).stdout)
        except self.package.CommandExitException as ended:
            return Reply(ended.stdout)
        except self.package.TimeoutException as error:
            raise TimeoutError from error
        finally:
            sandbox.kill()
