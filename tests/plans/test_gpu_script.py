"""The script of everything that needs a GPU says what it would do where there is none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gnomon.config import overrides, resolve

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it would run everything")
def test_without_a_gpu_it_lists_its_commands() -> None:
    script = [sys.executable, str(ROOT / "benchmarks/gpu.py")]
    text = subprocess.run(script, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    commands = [line.split() for line in text.splitlines() if line.startswith("python ")]
    assert "no CUDA device" in text and len(commands) >= 20
    for word in ("engine.type=vllm", "policy.dtype=float16", "ranks=2", "policy.attention=flex", "--speed"):
        assert any(word in words for words in commands), word
    for words in commands:
        for path in (word for word in words if re.fullmatch(r"[\w/]+\.py|tests/\w+", word)):
            assert (ROOT / path).exists()
        if "train" in words and not words[4].endswith(".toml"):
            resolve([overrides(words[5:])])
        assert words[1] != "-m" or words[2] != "gnomon" or words[3] in ("train", "mismatch", "verify", "plan")
