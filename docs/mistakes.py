"""Write docs/mistakes.md: what is printed for forty common mistakes, as the commands print it.

    python docs/mistakes.py

A test holds the committed page to what this writes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parent / "mistakes.md"
Run = Callable[[list[str], Path], str]
"""Words of a command line after `gnomon`, and the folder to run them in, to what is printed."""

HEAD = """\
# Forty mistakes, and what is printed

Every message says what is wrong, where, why, and what to write instead. Configuration errors come all at once, before
anything starts. Most fixes begin with text that can be pasted: a setting (which replaces the wrong one or is added), a
command, a path or a line of code. The others say what to do. `python docs/mistakes.py` makes each mistake and writes
this page. A test applies each fix.
"""

ENV = '''\
import random
from dataclasses import dataclass

from gnomon.envs import SingleTurn, identity
from gnomon.envs.base import SLOT, user
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class Add(SingleTurn):
    """Add two numbers."""

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(1, 50), rng.randint(1, 50)
        return Task(id=identity("add", a, b), messages=user(f"{a}+{b}? {SLOT}"), answer=a + b)

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == task.answer

    def solution(self, task: Task) -> str:
        return str(task.answer)
'''
CHECK = "return integer(answer) == task.answer"
TINY = Path(__file__).parents[1] / "src/gnomon/models/tiny"


@dataclass(frozen=True)
class Mistake:
    """One mistake: the files it needs, and the command that makes it; or a script that prints what it raises."""

    name: str
    words: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    line: str = ""
    """The line of a file that is the mistake."""
    model: Mapping[str, object] | None = None
    """Changes to the configurations of the shipped model, which is copied to `model`."""
    run: bool = False
    """Whether it needs a run of one step, in `runs/first`."""
    by_hand: str = ""
    """What a user writes in the place of `line`, or of the script, where the fix is a sentence."""


def coded(name: str, was: str, line: str, by_hand: str = "") -> Mistake:
    """Training on the environment with a line of it changed."""
    return Mistake(name, "train add.py:Add", {"add.py": ENV.replace(was, line)}, line=line, by_hand=by_hand)


ROWS = "".join(f'{{"prompt": "{n}+2?", "answer": "{n + 2}"}}\n' for n in range(40))
CALL = 'gnomon.train(Add(), run="runs/add")'
UNGUARDED = f"{ENV}\n\nimport gnomon\n\n{CALL}\n"

MISTAKES = [
    Mistake("A misspelled setting", "train countdown rolout.group=4"),
    Mistake("A setting of TRL", "train countdown num_generations=8 max_completion_length=64 learning_rate=1e-6"),
    Mistake("TRL's batch size", "train countdown per_device_train_batch_size=8 gradient_accumulation_steps=4"),
    Mistake("A setting of verl", "train countdown actor_rollout_ref.rollout.n=8 algorithm.kl_ctrl.kl_coef=0.01"),
    Mistake("A setting written as an option", "train countdown --steps 2"),
    Mistake("A GPU, an adapter, a KL weight", "train countdown device=cuda lora.rank=8 beta=0.04"),
    Mistake("Groups of one", "train countdown group=1"),
    Mistake("A text in the place of a number", "train countdown group=many"),
    Mistake("A value out of range", "train countdown lr=0"),
    Mistake("A misspelled objective", "train countdown objective=grop"),
    Mistake("More passes than samples", "train countdown eval.pass_at=[1,8]"),
    Mistake("A setting without a value", "train countdown fast"),
    Mistake("A misspelled environment", "train charcount"),
    Mistake("The name of a data set", "train gsm8k"),
    Mistake("A misspelled file of rows", "train row.jsonl", {"rows.jsonl": ROWS}),
    Mistake("A misspelled key in a recipe", "config show my.toml", {"my.toml": "[optim]\nlrr = 1e-4\n"}),
    Mistake("A misspelled option of an environment", "train countdown env.largst=4"),
    Mistake("An option that makes no task", "train countdown env.target=0"),
    Mistake("A file without its class", "check add.py", {"add.py": ENV}),
    Mistake("A class that is not in the file", "audit add.py:Adds --tasks 8", {"add.py": ENV}),
    coded("A syntax error", "class Add(SingleTurn):", "class Add(SingleTurn)"),
    coded("A class that is not frozen", "@dataclass(frozen=True, kw_only=True)", "@dataclass"),
    Mistake(
        "A script that trains when it is imported",
        "train add.py:Add",
        {"add.py": UNGUARDED},
        line=CALL,
        by_hand=f'if __name__ == "__main__":\n    {CALL}',
    ),
    coded("A misspelled attribute in a reward", CHECK, "return integer(answer) == task.anser"),
    coded("A reward without `return`", CHECK, "integer(answer) == task.answer", CHECK),
    coded("A reward that is a text", CHECK, 'return "yes" if integer(answer) else "no"', CHECK),
    coded("A reward that is not a number", CHECK, 'return float("nan")', CHECK),
    Mistake(
        "A reward function with a parameter that names nothing",
        script='rows = [{"prompt": f"{n}+1?", "answer": str(n + 1)} for n in range(9)]\n'
        'gnomon.train(rows, reward=lambda completion, gold_answer: 1.0, run="runs/a")',
        by_hand='rows = [{"prompt": f"{n}+1?", "answer": str(n + 1)} for n in range(9)]\n'
        'gnomon.train(rows, reward=lambda completion, answer: completion == answer, run="runs/a", **SOON)',
    ),
    Mistake(
        "Tasks without a reward",
        script='gnomon.train([{"prompt": "2+2?", "answer": "4"}], run="runs/a")',
        by_hand='gnomon.train([{"prompt": f"{n}+1?", "answer": str(n + 1)} for n in range(9)], '
        'reward=lambda completion, answer: completion == answer, run="runs/a", **SOON)',
    ),
    Mistake(
        "A setting of TRL in Python",
        script='gnomon.train("countdown", num_generations=4, run="runs/a")',
        by_hand='gnomon.train("countdown", **{**SOON, "rollout": {"group": 4, "prompts": 2, "max_tokens": 8}}, '
        'run="runs/a")',
    ),
    Mistake(
        "A column that a data set does not have", "train dataset env.path=q.jsonl env.prompt=text", {"q.jsonl": ROWS}
    ),
    Mistake(
        "Held-out questions among the train rows",
        "train dataset env.path=q.jsonl env.test=t.jsonl",
        {"q.jsonl": ROWS, "t.jsonl": ROWS.splitlines()[0] + "\n"},
    ),
    Mistake("A misspelled folder of a model", "eval char_count policy=modle", model={}),
    Mistake("A tokenizer that is larger than the model", "train countdown policy=model", model={"vocab_size": 20}),
    Mistake(
        "A model without an end token",
        "train countdown policy=model rollout.stop=[]",
        model={"eos_token_id": None, "eos_token": None},
    ),
    Mistake("A misspelled device", "plan countdown --device h10"),
    Mistake("A folder that holds a run", "train char_count run=runs/first", run=True),
    Mistake("A misspelled folder of a run", "resume runs/frist", run=True),
    Mistake("A step that the run does not have", "show runs/first 9", run=True),
    Mistake("An export into a folder with files", "export runs/first full", {"full/notes.txt": "mine"}, run=True),
]


def page(run: Run) -> str:
    """The whole page."""
    return HEAD + "".join(
        f"\n## {number}. {each.name}\n\n{shown(each, run)}" for number, each in enumerate(MISTAKES, 1)
    )


def shown(mistake: Mistake, run: Run) -> str:
    """The command or script, and what it prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare(mistake, folder, run)
        if mistake.script:
            said = scripted(mistake.script, folder)
            first = "".join(f">>> {line}\n" for line in mistake.script.splitlines())
        else:
            said = run(mistake.words.split(), folder)
            first = f"$ gnomon {mistake.words}\n"
        assert mistake.run or not (folder / "runs").exists(), "a mistake left a folder behind"
        said = said.replace(f"{folder}/", "").strip()
        errors = said[said.index("error[") :]
        line = f"In `add.py`:\n\n```text\n{mistake.line}\n```\n\n" if mistake.line else ""
        return f"{line}```text\n{first}{errors}\n```\n"


SOON = ["steps=1", "prompts=2", "group=2", "max_tokens=8", "eval.tasks=2", "threads=1"]


def prepare(mistake: Mistake, folder: Path, run: Run) -> None:
    """Write the files that a mistake needs."""
    for file, text in mistake.files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    if mistake.model is not None:
        shutil.copytree(TINY, folder / "model")
        for file in ("config.json", "generation_config.json", "tokenizer_config.json"):
            facts = json.loads((folder / "model" / file).read_text()) | dict(mistake.model)
            (folder / "model" / file).write_text(json.dumps(facts))
    if mistake.run:
        run(["train", "char_count", "run=runs/first", *SOON], folder)


def scripted(script: str, folder: Path) -> str:
    """What a script prints; an error in it is printed as text."""
    body = "".join(f"    {line}\n" for line in script.splitlines())
    soon = "SOON = dict(steps=1, rollout=dict(prompts=2, group=2, max_tokens=8), eval=dict(tasks=2), threads=1)\n"
    text = f"import gnomon\n\n{soon}try:\n{body}except Exception as error:\n    print(error)\n"
    (folder / "script.py").write_text(text)
    return subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=True).stdout


def alone(words: list[str], folder: Path) -> str:
    """What `gnomon` prints, run in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "gnomon", *words], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


if __name__ == "__main__":
    PAGE.write_text(page(alone), "utf-8")
