"""What a first user writes: scripts without a guard, keys of other libraries, a model folder of their own."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import gnomon
from commands import command, interpreter, python
from fixes import REMARK, brief, pasted, printed
from gnomon.api import configure
from gnomon.config import DEFAULTS, leaves, overrides, resolve
from gnomon.config.mistakes import ABSENT, OURS
from gnomon.envs import CharCount, Nim
from gnomon.errors import ConfigErrors, ResourceError, RunError
from gnomon.models.folder import TINY
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.vocabulary import end_tokens
from gnomon.objectives.options import OPTIONS
from gnomon.run.find import check_policy_config
from gnomon.store import require_free

DOCS = Path(__file__).parents[2] / "docs"
SMALL = {"steps": 2, "rollout": {"prompts": 2, "group": 2, "max_tokens": 8}, "eval": {"tasks": 2}, "threads": 1}

SCRIPT = """
import random
from dataclasses import dataclass

import gnomon
from gnomon.envs import SingleTurn, identity
from gnomon.envs.base import user
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Vowels(SingleTurn):
    def make(self, rng: random.Random) -> Task:
        word = "".join(rng.choices("abei", k=5))
        return Task(id=identity("v", word), messages=user(f"vowels in {word}?"), answer=sum(c in "aei" for c in word))

    def check(self, task: Task, answer: str) -> bool:
        return answer.strip() == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)

"""
CALL = (
    "print(gnomon.train(Vowels(), run={run!r}, quiet=True, steps=1, threads=1, eval={{'tasks': 2}}, "
    "rollout={{'prompts': 2, 'group': 2, 'max_tokens': 8}}).fingerprint)\n"
)


def ran(script: Path, by: Callable[..., subprocess.CompletedProcess[str]] = python) -> str:
    done = by(script.name, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_a_script_needs_no_guard_and_gives_the_same_bytes(tmp_path):
    script = tmp_path / "vowels.py"
    script.write_text(SCRIPT + CALL.format(run="plain"))
    plain = ran(script, by=interpreter)
    script.write_text(SCRIPT + "if __name__ == '__main__':\n    " + CALL.format(run="guarded"))
    assert ran(script) == plain and command("verify", "plain", cwd=tmp_path).returncode == 0
    again = command("train", "vowels.py:Vowels", "run=r", "group=1", cwd=tmp_path)
    assert "E031" in again.stderr, "the guarded file can be named"


@pytest.mark.parametrize("words", [("train", "vowels.py:Vowels"), ("check", "vowels.py:Vowels"), ("resume", "plain")])
def test_a_file_that_trains_when_it_is_imported_is_told_so(tmp_path, words):
    (tmp_path / "vowels.py").write_text(SCRIPT + CALL.format(run="plain"))
    if words[0] == "resume":
        ran(tmp_path / "vowels.py")
        import sqlite3

        with sqlite3.connect(tmp_path / "plain/journal.db") as journal:
            journal.execute("UPDATE meta SET value = 'interrupted' WHERE name = 'status'")
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 2 and "E026" in done.stderr and "__main__" in done.stderr, done.stderr


def test_a_class_of_a_module_that_trains_when_a_worker_imports_it(tmp_path):
    (tmp_path / "inner.py").write_text(SCRIPT + CALL.format(run="plain"))
    (tmp_path / "outer.py").write_text("import inner\n")
    done = python("outer.py", cwd=tmp_path)
    assert "E109" in done.stderr and "put the call under" in done.stderr, done.stderr
    assert not (tmp_path / "plain").exists()


def test_an_environment_of_a_function_is_resumed_with_the_object(tmp_path):
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Inner(CharCount):
        def solution(self, task):
            return str(task.answer)

    gnomon.train(Inner(), run=tmp_path / "r", quiet=True, budget={"steps": 3, "seconds": 1e-9}, **less(SMALL, "steps"))
    done = command("resume", "r", cwd=tmp_path)
    assert done.returncode == 2 and "E025" in done.stderr and "gnomon.resume" in done.stderr, done.stderr
    resumed = gnomon.resume(tmp_path / "r", Inner(), quiet=True)
    whole = gnomon.train(Inner(), run=tmp_path / "w", quiet=True, **{**SMALL, "steps": 3})
    assert resumed.status == "interrupted" or resumed.fingerprint == whole.fingerprint


class AtTheStart:
    """An observer that presses Ctrl-C twice before anything is recorded."""

    def start(self, manifest):
        raise KeyboardInterrupt

    step = evaluation = finish = lambda self, record: None


def test_a_run_that_ends_before_its_first_record_says_that_its_folder_is_gone(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        gnomon.train("char_count", run=tmp_path / "r", observers=[AtTheStart()], **SMALL)
    shown = capsys.readouterr()
    assert "Nothing was recorded, and the run folder was deleted" in shown.out + shown.err
    assert not (tmp_path / "r").exists()


def test_a_run_of_rows_and_a_function_names_the_call_that_resumes_it(tmp_path):
    rows = [{"prompt": f"{n}+1?", "answer": str(n + 1)} for n in range(20)]

    def reward(reply, answer):
        return reply == answer

    small = less(SMALL, "steps")
    gnomon.train(rows, reward=reward, run=tmp_path / "r", quiet=True, budget={"steps": 3, "seconds": 1e-9}, **small)
    done = command("resume", "r", cwd=tmp_path)
    assert done.returncode == 2 and "gnomon.resume(RUN, ROWS, reward=FUNCTION)" in done.stderr, done.stderr
    assert gnomon.resume(tmp_path / "r", rows, reward=reward, quiet=True).status == "interrupted"  # Its time is up.


def test_a_run_is_resumed_with_its_own_environment_only(tmp_path):
    rows = [{"prompt": f"{i} + 1? <answer>...</answer>", "answer": str(i + 1)} for i in range(9)]

    def exact(completion, answer):
        return completion.strip() == f"<answer>{answer}</answer>"

    def other(completion, answer):
        return exact(completion, answer)

    stopped = {**less(SMALL, "steps"), "budget": {"steps": 3, "seconds": 1e-9}}
    gnomon.train(CharCount(), run=tmp_path / "e", quiet=True, env={"format": 0.5}, **stopped)
    gnomon.train(rows, reward=exact, run=tmp_path / "f", quiet=True, **stopped)
    for run, given, named in (
        ("e", (CharCount(), None), "env.format"),
        ("e", (Nim(), None), "env.type"),
        ("f", (rows[:8], exact), "env.t"),
        ("f", (rows, other), "env.reward"),
    ):
        with pytest.raises(RunError, match=rf"E192(.|\n)*{named}"):
            gnomon.resume(tmp_path / run, given[0], reward=given[1], quiet=True)
    gnomon.resume(tmp_path / "e", CharCount(format=0.5), quiet=True).close()
    gnomon.resume(tmp_path / "f", rows, reward=exact, quiet=True).close()


def test_tasks_and_a_reward_have_no_options():
    rows = [{"prompt": f"{i} + 1?", "answer": str(i + 1)} for i in range(9)]
    for options in ({"reward": 1}, {"format": 1}):
        with pytest.raises(ConfigErrors, match="E012"):
            configure(rows, {"env": options}, reward=lambda completion, answer: True)


def less(settings, name):
    return {key: value for key, value in settings.items() if key != name}


def test_options_of_an_environment_beside_its_name_or_its_object():
    config, built = configure("char_count", {"env": {"format": 0.5}})
    assert config.env.options == {"format": 0.5} and built is None
    config, built = configure(CharCount(), {"env": {"format": 0.5}})
    assert config.env.options == {"format": 0.5} and built == CharCount(format=0.5)
    assert configure(None, {"env": "char_count"})[0].env.type == "char_count"
    assert configure(None, {"env": {"type": "char_count", "format": 0.5}})[0].env.options == {"format": 0.5}


@pytest.mark.parametrize(
    ("what", "settings", "code"),
    [
        (None, {}, "E027"),
        ("char_count", {"env": {"type": "nim"}}, "E027"),
        ("char_count", {"env": {"formt": 0.5}}, "E012"),
        (CharCount(), {"env": {"formt": 0.5}}, "E012"),
        (CharCount(), {"env": {"shots": -1}}, "E024"),
        (CharCount, {}, "E027"),
        ([{"prompt": "x"}], {}, "E027"),
        (3, {}, "E027"),
    ],
)
def test_a_call_that_names_no_environment_is_refused(what, settings, code):
    with pytest.raises(ConfigErrors, match=code):
        configure(what, settings)


def test_keys_of_others_name_keys_of_ours():
    ours = {*leaves(DEFAULTS), "env.path", "env.test", "env.verifier", "run", "objective.gamma", "objective.lam"}
    ours |= {f"objective.{name}" for row in OPTIONS.values() for name in row.options}
    assert set(OURS.values()) <= ours and not OURS.keys() & ABSENT.keys()
    assert not OURS.keys() & leaves(DEFAULTS).keys(), "a key of ours needs no other name"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("num_generations", "did you mean rollout.group (default 8)?"),
        ("trainer.optim.lr", "did you mean optim.lr"),
        ("actor_rollout_ref.rollout.n", "did you mean rollout.group"),
        ("actor_rollout_ref.actor.kl_loss_coef", "did you mean regularize.kl"),
        ("critic.optim.lr", "did you mean critic.lr"),
        ("data.max_response_length", "did you mean rollout.max_tokens"),
        ("orchestrator.rollouts_per_example", "did you mean rollout.group"),
        ("orchestrator.sampling.max_tokens", "did you mean rollout.max_tokens"),
        ("verifier", "did you mean env.verifier"),
        ("reward", "gnomon.train(rows, reward=f)"),
        ("lora.rank", "did you mean policy.lora.rank"),
        ("lora", "did you mean policy.lora.rank"),
        ("device", "did you mean policy.device"),
        ("max_async_level", "did you mean rollout.lag"),
        ("trainer.n_gpus_per_node", "did you mean ranks"),
        ("deepspeed", "with ranks=N in N processes"),
        ("inference.parallel.tp", "samples with vLLM, in a process of its own"),
        ("output_dir", "fix: run=1"),
    ],
)
def test_a_key_of_another_library_is_answered(key, words):
    with pytest.raises(ConfigErrors) as caught:
        resolve([overrides([f"{key}=1", "group=4"])])
    assert words in str(caught.value) and f"unknown key {key}" in str(caught.value), caught.value
    assert f"argument 1: {key}=1" in str(caught.value)


def model(folder: Path, **facts: object) -> Path:
    shutil.copytree(TINY, folder)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    return folder


@pytest.mark.parametrize(
    ("facts", "words", "code"),
    [
        ({"vocab_size": 20}, [], "E317"),
        ({"eos_token_id": 5000}, [], "E317"),
        ({"eos_token_id": None, "eos_token": None}, ["rollout.stop=[]"], "E318"),
        ({"eos_token_id": None, "eos_token": None}, [], ""),
        ({"vocab_size": 5000}, [], ""),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_refused_before_anything_starts(tmp_path, facts, words, code):
    folder = model(tmp_path / "m", **facts)
    sources = [overrides([f"policy={folder}", *words])]
    if not code:
        resolve(sources, [check_policy_config])
        return
    with pytest.raises(ConfigErrors, match=code):
        resolve(sources, [check_policy_config])


@pytest.mark.parametrize("named", ["<eos>", {"content": "<eos>", "special": True}, "a", "<none>", 3, None])
def test_the_end_token_of_the_tokenizer_counts_where_the_model_names_none(tmp_path, named):
    folder = model(tmp_path / "m", eos_token_id=None, eos_token=named)
    text = named["content"] if isinstance(named, dict) else named
    known = {"<eos>": Tokenizer(TINY).eos, "a": frozenset(Tokenizer(TINY).encode("a"))}.get(text, frozenset())
    assert Tokenizer(folder).eos == frozenset(end_tokens(folder)) == known
    assert Tokenizer(model(tmp_path / "n", eos_token=named)).eos == Tokenizer(TINY).eos, "the model has the first word"


def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="is a file"):
        require_free(tmp_path / "file" / "run")
    require_free(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_page", DOCS / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_page_of_mistakes_is_what_is_printed():
    def run(words: list[str], folder: Path) -> str:
        done = command(*words, cwd=folder)
        return done.stdout + done.stderr

    page = script("mistakes")
    assert len(page.MISTAKES) == 40
    assert page.PAGE.read_text() == page.page(run), "out of date, run python docs/mistakes.py"


def run_here(words: list[str], folder: Path) -> str:
    done = command(*words, cwd=folder)
    return done.stdout + done.stderr


ONLY_THE_USER_KNOWS = {"A tokenizer that is larger than the model"}
"""Its fix changes a model folder."""


@pytest.mark.parametrize("name", [each.name for each in script("mistakes").MISTAKES])
def test_the_fix_of_a_mistake_is_pasted_and_has_another_outcome(name, tmp_path):
    page = script("mistakes")
    mistake = next(each for each in page.MISTAKES if each.name == name)
    page.prepare(mistake, tmp_path, run_here)
    words = mistake.words.split()
    before = printed(run_here(words, tmp_path) if words else page.scripted(mistake.script, tmp_path))
    assert before and all(error.fix for error in before), before
    if mistake.script:
        after = printed(page.scripted(mistake.by_hand, tmp_path))
    elif mistake.line:
        text = (tmp_path / "add.py").read_text()
        written = mistake.by_hand or REMARK.split(before[0].fix)[0]
        (tmp_path / "add.py").write_text(text.replace(mistake.line, written))
        after = printed(run_here(brief(words), tmp_path))
    else:
        for error in reversed(before):  # Arguments keep their numbers.
            found = pasted(words, error, tmp_path)
            if found is None:
                assert name in ONLY_THE_USER_KNOWS, error
                return
            words = found
        after = printed(run_here(brief(words), tmp_path))
    assert not {(e.code, e.what) for e in before} & {(e.code, e.what) for e in after}, (words, before, after)


def test_the_types_of_the_settings_are_those_of_the_configuration():
    types = script("settings")
    assert types.FILE.read_text() == types.text(), "out of date, run python docs/settings.py"
