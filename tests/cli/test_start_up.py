"""The start of a run: what is being done is said at once, and only what the run needs is measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gnomon
from commands import command
from gnomon.api import configure
from gnomon.engines.decoder import Decoder
from gnomon.engines.embedded import Embedded
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.run.parts import build

SMALL = ("prompts=2", "group=2", "max_tokens=8", "steps=1", "eval.tasks=2", "threads=1")
PHASES = ("trying the verifier", "loading the policy", "comparing sampler and learner", "auditing the verifier")


@pytest.mark.long
def test_the_first_line_comes_before_torch_is_loaded(tmp_path: Path):
    code = f"import sys; sys.argv = {['gnomon', 'train', 'char_count', 'run=r', *SMALL]!r}\n"
    code += (
        "from gnomon.cli import main\ntry:\n main()\nfinally:\n import gc; print('frozen', gc.get_freeze_count() > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = done.stdout.splitlines()
    head = next(
        place for place, line in enumerate(lines) if line.startswith("char_count · dr_grpo · 2 prompts x 2 · r")
    )
    loading = next(place for place, line in enumerate(lines) if line.startswith("loading torch and transformers …"))
    torch = next(place for place, line in enumerate(lines) if re.search(r"\| +torch(\.|$)", line))
    assert head < loading <= torch
    assert "frozen True" in lines  # Else the garbage collector searches all of torch at the exit.


def test_each_phase_is_said_with_its_seconds(tmp_path: Path):
    done = command("train", "char_count", "run=r", *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for phase in PHASES:
        assert re.search(rf"^{phase} … \d+\.\d s$", done.stdout, re.MULTILINE), done.stdout


def test_a_quiet_run_prints_nothing(tmp_path: Path, capfd):
    small = {"rollout": {"prompts": 2, "group": 2, "max_tokens": 8}, "eval": {"tasks": 2}, "threads": 1}
    gnomon.train("char_count", run=tmp_path / "r", steps=1, quiet=True, **small).close()
    assert capfd.readouterr() == ("", "")


def test_a_phase_that_fails_ends_its_line(tmp_path: Path):
    (tmp_path / "bad.py").write_text(
        "from gnomon.envs import CharCount\n"
        "class Bad(CharCount):\n"
        "    def check(self, task, answer):\n"
        "        raise ValueError('no')\n"
    )
    done = command("train", "bad.py:Bad", "run=r", *SMALL, cwd=tmp_path)
    assert done.returncode == 1 and "error[E107]" in done.stderr
    assert re.search(r"^trying the verifier … \d+\.\d s\n\Z", done.stdout, re.MULTILINE), done.stdout


@pytest.fixture
def decoded(monkeypatch) -> list[int]:
    """The sizes of all completions that engines are asked for."""
    sizes: list[int] = []
    monkeypatch.setattr(
        Decoder,
        "admit",
        lambda self, request, *more, admit=Decoder.admit: (
            sizes.append(request.sampling.max_tokens) or admit(self, request, *more)
        ),
    )
    return sizes


def test_the_comparison_meets_what_the_run_can_meet(decoded):
    settings = {"rollout": {"prompts": 2, "group": 2, "max_tokens": 24}, "threads": 1, "steps": 1}
    parts = build(configure("char_count", settings)[0])
    assert parts.mismatch == 0.0 and 1 < max(decoded) <= 24


def test_a_policy_that_is_not_exact_is_compared_on_a_few_tokens(decoded):
    policy = Policy.load(model_folder("tiny"))
    layer = policy.model.gpt_neox.layers[0].attention.dense
    layer.register_forward_hook(
        lambda layer, inputs, hidden: hidden + 1e-3 * hidden.shape[-2]
    )  # Rows see their number.
    assert Embedded(policy).measure([policy.tokenizer.encode("Compute 5 + 6.\n")]) > 0.0
    assert len(decoded) == 2 and max(decoded) <= 8
