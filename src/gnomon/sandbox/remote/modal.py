"""Runs in sandboxes of Modal, one per run. Source: package modal 1.6, `Sandbox.create`, `Sandbox.exec`."""

from __future__ import annotations

import os
from pathlib import Path

from gnomon.sandbox.job import Limits
from gnomon.sandbox.remote.base import Elsewhere, Reply, import_package, refusal

__all__ = ["ModalRunner"]


class ModalRunner(Elsewhere):
    """gVisor sandboxes without network. Args: app: name of their Modal app, which is created if it does not exist.

    Raises: ResourceError E523 without the package, E524 without a token.
    """

    def __init__(self, app: str = "gnomon", workers: int = 4, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self.app = app
        self.package = import_package("modal", "modal")
        if not os.environ.get("MODAL_TOKEN_ID") and not (Path.home() / ".modal.toml").exists():
            raise refusal("Modal", "There is no token in the environment or in ~/.modal.toml.", "modal token new")

    def execute(self, script: str, timeout: float) -> Reply:
        modal = self.package
        sandbox = modal.Sandbox.create(
            app=modal.App.lookup(self.app, create_if_missing=True),
            image=modal.Image.debian_slim(python_version="3.11"),
            timeout=int(timeout) + 60,
            memory=(self.limits.memory_bytes + 2**26) // 2**20,
            block_network=True,
        )
        try:
            process = sandbox.exec("python3", "-", timeout=int(timeout))
            process.stdin.write(script.encode())
            process.stdin.write_eof()
            process.stdin.drain()
            output = process.stdout.read()
            if process.wait() == -1:  # Modal returns -1 after a timeout.
                raise TimeoutError
            return Reply(output)
        except modal.exception.ExecTimeoutError as error:
            raise TimeoutError from error
        finally:
            sandbox.terminate()
