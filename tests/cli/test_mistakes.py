"""A user's mistake is told before anything starts: what, where, why, and a fix that can be pasted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gnomon
from commands import command
from fixes import brief, pasted, printed
from gnomon.errors import ConfigErrors, RunError, VerifierError

SMALL = {"steps": 2, "rollout": {"prompts": 2, "group": 2, "max_tokens": 16}, "eval": {"tasks": 2}}


CASES = {
    "unknown key": (["train", "countdown", "optim.learning_rate=1e-3"], "E012", "did you mean optim.lr"),
    "unknown table": (["train", "countdown", "rolout.group=4"], "E012", "did you mean rollout"),
    "unknown env option": (["train", "countdown", "env.largst=4"], "E012", "did you mean env.largest"),
    "wrong type": (["train", "countdown", "group=many"], "E011", "rollout.group"),
    "out of range": (["train", "countdown", "prompts=0"], "E011", "greater than or equal to 1"),
    "group of one under a baseline": (["train", "countdown", "group=1"], "E031", "objective=reinforce"),
    "pass@k beyond the samples": (["train", "countdown", "eval.pass_at=[1,8]"], "E032", "eval.samples=8"),
    "unknown objective": (["train", "countdown", "objective=grop"], "E013", "did you mean grpo"),
    "renamed objective": (["train", "countdown", "objective=dro"], "E013", "objective=kimi_k15"),
    "card of a renamed objective": (["objective", "dro"], "E013", "objective=kimi_k15"),
    "counting other rewards than 0 and 1": (["train", "countdown", "objective=maxrl"], "E033", "env.format=0"),
    "counting what a game pays": (["train", "nim", "objective=maxrl"], "E033", "objective=rloo"),
    "no demonstrations": (["train", "countdown", "objective=luffy"], "E035", "rollout.demonstrations=FILE"),
    "demonstrations for nothing": (["train", "countdown", "rollout.demonstrations=x.jsonl"], "E035", "objective=sft"),
    "a task beyond the split": (["train", "char_count", "rollout.tasks=[2147483648]"], "E040", "from 0 to 2147483647"),
    "two penalties": (["train", "char_count", "objective=kimi_k15", "regularize.kl=0.1"], "E041", "regularize.kl=0"),
    "more minibatches than prompts": (["train", "countdown", "prompts=2", "optim.minibatches=3"], "E034", "=2"),
    "SGD without a learning rate": (["train", "countdown", "optim.type=sgd"], "E057", "optim.lr=10"),
    "momentum of AdamW": (["train", "countdown", "optim.momentum=0.9"], "E056", "optim.type=sgd"),
    "unknown environment": (["train", "cuntdown"], "E021", "env=countdown"),
    "missing env file": (["train", "nowhere.py:Env"], "E021", "dir/file.py:Env"),
    "missing recipe": (["train", "nowhere.toml"], "E001", "nowhere.toml"),
    "no setting": (["train", "countdown", "fast"], "E003", "key=value"),
    "an objective alone": (["train", "countdown", "grpo"], "E003", "objective=grpo"),
    "a setting with a dash": (["train", "countdown", "max-tokens=8"], "E003", "max_tokens=8"),
    "missing model folder": (["train", "countdown", "policy=/no/such/model"], "E301", "policy=tiny"),
    "no teacher": (["train", "countdown", "objective=opd"], "E055", "policy.reference=FOLDER"),
    "the policy as its teacher": (["train", "countdown", "objective=opd", "policy.reference=tiny"], "E055", "opsd"),
    "missing teacher": (
        ["train", "countdown", "objective=opd", "policy.reference=/no/such/model"],
        "E301",
        "policy.reference=FOLDER",
    ),
    "below the first task": (["play", "countdown", "--index", "-1"], "--index", "greater than or equal to 0"),
    "no run": (["show", "/no/such/run"], "E404", ""),
    "neither true nor false": (["train", "countdown", "env.hint=maybe"], "E024", "env.hint=true"),
    "impossible env": (["train", "countdown", "env.target=0"], "E024", "env.target=100"),
}


CASES |= {
    "environment without an underscore": (["train", "charcount"], "E021", "fix: env=char_count"),
    "two letters swapped": (["train", "countdown", "objective=gpro"], "E013", "fix: objective=grpo"),
    "an option of a setting": (["train", "countdown", "--steps", "2"], "E003", "fix: steps=2"),
    "an option with a sign": (["eval", "countdown", "--max-tokens=8"], "E003", "fix: max_tokens=8"),
    "an option of another library": (["train", "countdown", "--learning-rate", "1e-4"], "E003", "fix: optim.lr=0.0001"),
    "an option of the environment": (["check", "countdown", "--largest", "4"], "E003", "fix: env.largest=4"),
    "a data set by its name": (["train", "gsm8k"], "E021", "gnomon train gsm8k-qwen3-0.6b.toml"),
    "a data set of the hub": (["train", "openai/gsm8k"], "E021", "gnomon train gsm8k-qwen3-0.6b.toml"),
    "a data set of nobody": (["train", "some/rows"], "E021", "env=dataset env.path=some/rows"),
    "a data set without its package": (["train", "dataset", "env.path=some/rows"], "E505", "gnomon[datasets]"),
    "a class of a module": (["train", "gnomon.envs.controlled:Controled"], "E021", "controlled:Controlled"),
    "no module": (["train", "nowhere.module:Env"], "E021", "there is no module"),
    "two environments": (["eval", "countdown", "env=nim"], "E021", "fix: leave it out"),
    "a model in the place of the environment": (["eval", "tiny", "env=nim"], "E021", "policy=tiny"),
    "an environment after another word": (["eval", "tiny", "gnomon.envs:Nim"], "E003", "fix: env=gnomon.envs:Nim"),
    "settings without an environment": (["train", "steps=2"], "E021", "env=countdown"),
    "a setting of half precision": (["train", "countdown", "bf16=true"], "E012", "fix: policy.dtype=bfloat16"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_has_a_code_a_place_and_a_fix(name, tmp_path):
    words, code, fix = CASES[name]
    done = command(*words, cwd=tmp_path)
    assert done.returncode in (1, 2) and code in done.stderr, done.stderr
    assert fix in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


BY_HAND = {"missing env file", "missing recipe", "no teacher", "missing teacher", "no demonstrations", "no module"}
"""Mistakes whose fix names what only the user knows: a file, a model, a folder."""
OUTSIDE = {"below the first task": "typer's own error", "a data set without its package": "its fix installs a package"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in BY_HAND | OUTSIDE.keys()])
def test_a_fix_that_is_pasted_has_another_outcome(name, tmp_path):
    words = CASES[name][0]
    before = printed(command(*words, cwd=tmp_path).stderr)
    after = words
    for error in reversed(before):  # Arguments keep their numbers.
        found = pasted(after, error, tmp_path)
        assert found is not None, f"cannot be pasted: {error}"
        after = found
    done = command(*brief(after), cwd=tmp_path)
    again = {(error.code, error.what) for error in printed(done.stderr)} & {(e.code, e.what) for e in before}
    assert after != words and not again and "Usage:" not in done.stderr, (after, done.stderr)


@pytest.mark.long
def test_the_first_word_of_a_command_may_be_a_setting_or_a_file_of_rows(tmp_path):
    rows = "".join(f'{{"prompt": "{n}+1?", "answer": "{n + 1}"}}\n' for n in range(40))
    (tmp_path / "rows.jsonl").write_text(rows)
    short = ["group=2", *brief(["train"])[1:]]
    for name, words in (
        ("char_count-1", ["steps=1", "env=char_count"]),
        ("gnomon.envs-1", ["env=gnomon.envs.char_count:CharCount"]),
        ("rows-1", ["rows.jsonl"]),
    ):
        done = command("train", *words, *(word for word in short if word not in words), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "runs" / name).is_dir(), done.stdout
    for words in (
        ["audit", "env=char_count", "--tasks", "8"],
        ["plan", "env=char_count"],
        ["env", "prompt", "env=nim"],
    ):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    for prefix, package in (("rg", "reasoning_gym"), ("gem", "gem")):
        if find_spec(package):
            continue
        done = command("train", f"env={prefix}:chain_sum", cwd=tmp_path)
        assert printed(done.stderr)[0].code in ("E531", "E170"), done.stderr  # Their packages are not installed.


def test_all_mistakes_come_at_once(tmp_path):
    done = command("train", "cuntdown", "optim.learning_rate=1", "group=1", "policy=/no/model", cwd=tmp_path)
    for code in ("E012", "E021", "E031", "E301"):
        assert code in done.stderr, done.stderr
    assert "4 errors. Nothing was started." in done.stderr and "argument 2" in done.stderr


def test_arguments_are_counted_as_they_stand(tmp_path):
    done = command("train", "countdown", "run=r", "lr=1e-4", "group=1", cwd=tmp_path)
    assert "argument 4: group=1" in done.stderr, done.stderr


def test_the_line_of_a_recipe_is_named(tmp_path):
    (tmp_path / "r.toml").write_text('[env]\ntype = "countdown"\n\n[optim]\nlr = 1e-3\nbeta1 = 0.9\n')
    done = command("train", "r.toml", cwd=tmp_path)
    assert "r.toml, line 6" in done.stderr and "E012" in done.stderr, done.stderr


def test_config_errors_are_fast_and_need_no_torch():
    code = (
        "import sys, time\nsys.argv = ['gnomon', 'train', 'countdown', 'optim.learning_rate=1']\n"
        "from gnomon.cli import main\ntry:\n main()\nexcept SystemExit as end:\n assert end.code == 2\n"
        "assert not {'torch', 'transformers', 'numpy'} & sys.modules.keys()\n"
        # Half a second on a quiet machine; six times that still catches an import of torch.
        "assert time.process_time() < 3, time.process_time()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FAULTY = """
from dataclasses import dataclass
from functools import cache
from gnomon.envs import Arithmetic

@dataclass(frozen=True, kw_only=True)
class Raises(Arithmetic):
    def check(self, task, answer):
        return {}["missing"]
    def verify(self, task, reply):
        return {}["missing"]

@dataclass(frozen=True, kw_only=True)
class NotANumber(Arithmetic):
    correct: float = float("nan")

@dataclass(frozen=True, kw_only=True)
class TooMuch(Arithmetic):
    @property
    def reward_range(self):
        return (0.0, 0.01)
    correct: float = 5.0

@dataclass(frozen=True, kw_only=True)
class Silent(Arithmetic):
    def verify(self, task, reply):
        return None

@dataclass(frozen=True, kw_only=True)
class Halfway(Arithmetic):
    def check(self, task, answer):
        return {}["missing"] if "nan" in answer else super().check(task, answer)

@cache
def known(kind):
    return {task.id for task in map(kind().tasks("train").__getitem__, range(64))}

@dataclass(frozen=True, kw_only=True)
class Late(Arithmetic):
    def check(self, task, answer):
        return super().check(task, answer) if task.id in known(type(self)) else {}["missing"]
    def verify(self, task, reply):
        return super().verify(task, reply) if task.id in known(type(self)) else {}["missing"]
"""

TINY = ["steps=2", "prompts=2", "group=2", "max_tokens=24", "eval.tasks=8", "threads=1"]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("Raises", "E107", "at faulty.py:11, in verify: return {}["),
        ("TooMuch", "E105", "outside reward_range"),
        ("Silent", "E105", "at faulty.py:26, in verify"),
        ("Halfway", "E124", "at faulty.py:32, in check"),
    ],
)
def test_a_broken_verifier_starts_no_run_and_is_reported_at_its_line(tmp_path, name, code, words):
    (tmp_path / "faulty.py").write_text(FAULTY)
    done = command("train", f"faulty.py:{name}", "run=r", *TINY, cwd=tmp_path)
    assert done.returncode and code in done.stderr and words in done.stderr, done.stderr
    assert "acknowledge" not in done.stderr and not (tmp_path / "r").exists(), done.stderr


def test_a_verifier_that_breaks_later_stops_the_run_and_is_never_a_zero(tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    done = command("train", "faulty.py:Late", "run=r", *TINY, "eval.tasks=2", cwd=tmp_path)
    assert done.returncode == 1 and re.search("E10[46]", done.stderr) and "KeyError" in done.stderr, done.stderr
    assert "fix: return a verdict" in done.stderr


def test_a_weight_that_is_no_number_is_told_as_a_setting(tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    done = command("train", "faulty.py:NotANumber", "run=r", cwd=tmp_path)
    assert done.returncode == 2 and "E024" in done.stderr and "must be finite" in done.stderr, done.stderr


def test_a_run_folder_is_not_overwritten(tmp_path):
    gnomon.train("char_count", run=tmp_path / "r", quiet=True, **SMALL).close()
    done = command("train", "char_count", "run=r", cwd=tmp_path)
    assert "E401" in done.stderr and "gnomon resume r" in done.stderr
    with pytest.raises(RunError, match="E401"):
        gnomon.train("char_count", run=tmp_path / "r", **SMALL)


def test_a_run_in_use_is_refused(tmp_path):
    from gnomon.store import Run

    gnomon.train("char_count", run=tmp_path / "r", quiet=True, **SMALL).close()
    import sqlite3

    with sqlite3.connect(tmp_path / "r" / "journal.db") as journal:
        journal.execute("UPDATE meta SET value = 'running' WHERE name = 'status'")
    with Run.resume(tmp_path / "r"):
        done = command("resume", "r", cwd=tmp_path)
        assert done.returncode == 1 and "E402" in done.stderr and str(os.getpid()) in done.stderr, done.stderr


def test_the_api_raises_what_the_command_line_prints(tmp_path):
    with pytest.raises(ConfigErrors) as caught:
        gnomon.train("countdown", run=tmp_path / "r", learning_rate=1e-3, group=1)
    assert {error.code for error in caught.value.errors} == {"E012", "E031"}
    sys.path.insert(0, str(tmp_path))
    (tmp_path / "faulty_here.py").write_text(FAULTY)
    import faulty_here  # type: ignore[import-not-found]

    with pytest.raises(VerifierError, match=r"(?s)E107.*KeyError"):
        gnomon.train(faulty_here.Raises(), run=tmp_path / "s", quiet=True, **SMALL)
    assert not (tmp_path / "s").exists(), "a run that recorded nothing leaves no folder"
    with pytest.raises(VerifierError, match=r"(?s)E10[46].*KeyError"):
        gnomon.train(faulty_here.Late(), run=tmp_path / "s", quiet=True, **SMALL)
    with gnomon.RunReader(tmp_path / "s") as reader:
        assert reader.attempts and reader.steps == 0, "what made the first step fail is kept"


@pytest.fixture()
def small_disk(tmp_path: Path):
    """A file system of 4 MB, too small for two checkpoints of the tiny policy."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root: " + mounted.stderr.decode().strip())
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_nothing_is_lost(small_disk, tmp_path):
    words = ["steps=2", "prompts=2", "group=2", "max_tokens=16", "eval.tasks=2", "save.every=1"]
    full = command("train", "char_count", f"run={small_disk / 'r'}", *words)
    assert full.returncode == 1 and "E501" in full.stderr and "Traceback" not in full.stderr, full.stderr
    assert command("verify", str(small_disk / "r")).returncode == 0
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert command("resume", str(small_disk / "r")).returncode == 0
    untouched = gnomon.train("char_count", run=tmp_path / "u", quiet=True, **SMALL)
    with gnomon.RunReader(small_disk / "r") as resumed:
        assert resumed.fingerprint == untouched.fingerprint
