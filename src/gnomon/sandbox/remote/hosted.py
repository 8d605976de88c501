"""Runs in sandboxes of E2B, Daytona and Modal, one per run.

Source: e2b 2.63, `Sandbox.create`, `files.write`, `commands.run`; daytona 0.226, `create`, `fs`, `process.exec`;
modal 1.6, `Sandbox.create`, `Sandbox.exec`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gnomon.sandbox.job import Limits
from gnomon.sandbox.remote.base import Elsewhere, Reply, import_package, refusal

__all__ = ["DaytonaRunner", "E2BRunner", "ModalRunner"]


class E2BRunner(Elsewhere):
    """Micro-VMs without internet. Args: template: must contain `python3` 3.11 or newer; empty for E2B's default.

    Raises: ResourceError E523 without the package, E524 without a key.
    """

    def __init__(self, template: str = "", workers: int = 4, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self.template, self.package = template, package_with_key("e2b", "E2B", "E2B_API_KEY", "e2b_...")

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


class DaytonaRunner(Elsewhere):
    """Sandboxes without network. Args: image: must contain `python3` 3.11 or newer.

    Raises: ResourceError E523 without the package, E524 without a key.
    """

    def __init__(self, image: str = "python:3.11-slim", workers: int = 4, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self.image, self.package = image, package_with_key("daytona", "Daytona", "DAYTONA_API_KEY", "...")

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


def package_with_key(package: str, provider: str, variable: str, example: str) -> Any:
    """The package of a provider whose key is in the environment. Raises: ResourceError E523, E524."""
    module = import_package(package, package)
    if not os.environ.get(variable):
        raise refusal(provider, "There is no key in the environment.", f"export {variable}={example}")
    return module
