"""Run jobs in Docker containers, one per run, with the command line client.

Source: docs.docker.com/reference/cli/docker/container/run.
"""

from __future__ import annotations

import shutil
import subprocess

from gnomon.sandbox.job import Limits
from gnomon.sandbox.remote.base import Elsewhere, Reply, refusal

__all__ = ["DockerRunner"]


class DockerRunner(Elsewhere):
    """Containers without network, capabilities or a writable root. Args: image: must contain `python3` 3.11 or newer.

    Raises: ResourceError E524 if the command is missing or no daemon answers.
    """

    def __init__(self, image: str = "python:3.11-slim", workers: int = 4, limits: Limits | None = None) -> None:
        super().__init__(workers, limits)
        self.image = image
        if shutil.which("docker") is None:
            raise refusal("Docker", "The command docker is not installed.", "apt-get install docker.io")
        process = subprocess.run(
            ["docker", "info", "--format", "{{.ServerVersion}}"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        if process.returncode or not process.stdout.strip():
            why = (process.stderr.strip().splitlines() or ["no daemon answers"])[-1]
            raise refusal("Docker", why, "systemctl start docker, or set DOCKER_HOST")

    def command(self) -> list[str]:
        """The docker command line, up to the program inside."""
        limits = self.limits
        words = ["docker", "run", "--rm", "--interactive", "--init", "--network", "none", "--read-only"]
        words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534"]
        words += ["--pids-limit", str(limits.processes + 4), "--memory", str(limits.memory_bytes + 2**26)]
        words += ["--tmpfs", f"/tmp:size={limits.file_bytes + 2**20},mode=1777"]
        return [*words, self.image, "python3", "-"]

    def execute(self, script: str, timeout: float) -> Reply:
        try:
            done = subprocess.run(
                self.command(), input=script, capture_output=True, encoding="utf-8", errors="replace", timeout=timeout
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
        if done.returncode == 125:  # Docker itself failed.
            raise OSError(done.stderr.strip())
        return Reply(done.stdout)
