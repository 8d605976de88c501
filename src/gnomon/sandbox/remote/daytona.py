"""Runs in sandboxes of Daytona, one per run. Source: package daytona 0.226, `create`, `fs`, `process.exec`."""

from __future__ import annotations

import os

from gnomon.sandbox.job import Limits
from gnomon.sandbox.remote.base import Elsewhere, Reply, import_package, refusal

__all__ = ["DaytonaRunner"]


class DaytonaRunner(Elsewhere):
    """Sandboxes without network. Args: image: must contain `python3` 3.11 or newer.

    Raises: ResourceError E523 without the package, E524 without a key.
    """

    def __init__(self, image: str = "python:3.11-slim", workers: int = 4, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self.image = image
        self.package = import_package("daytona", "daytona")
        if not os.environ.get("DAYTONA_API_KEY"):
            raise refusal("Daytona", "There is no key in the environment.", "export DAYTONA_API_KEY=...")

    def execute(self, script: str, timeout: float) -> Reply:
        client = self.package.Daytona()
        sandbox = client.create(
            self.package.CreateSandboxFromImageParams(image=self.image, network_block_all=True, ephemeral=True)
        )
        try:
            sandbox.fs.upload_file(script.encode(), "/tmp/gnomon_job.py")
            done = sandbox.process.exec("python3 /tmp/gnomon_job.py", timeout=int(timeout))
            return Reply(done.result)
        except self.package.DaytonaTimeoutError as error:
            raise TimeoutError from error
        finally:
            client.delete(sandbox)
