"""Hosted environments, over stand-ins with the packages' shape; benchmarks/adapters.py holds the real ones."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gnomon.envs.base import split_of
from gnomon.envs.check import check_env
from gnomon.envs.episodes import play
from gnomon.errors import ConfigError, ResourceError, VerifierError
from gnomon.integrations.environments import Gem, Gym, ReasoningGym, TextArena, VerifiersEnv, adapter
from gnomon.integrations.environments.hosting import HOSTS
from gnomon.keys import Key
from gnomon.run.find import make_env, make_judge
from gnomon.types import Status
from workers.plays import last_steps

STANDINS = Path(__file__).parent / "standins"
KEY = Key(0)


@pytest.fixture(autouse=True)
def beside_the_standins(monkeypatch):
    """A host finds what a script in the working folder would find; no later test does."""
    monkeypatch.chdir(STANDINS)
    monkeypatch.setattr(sys, "path", [*sys.path])


def said(move):
    return f"<answer>{move}</answer>"


def search(env, task):
    """The verdict on a player who halves what is left, and how many replies it took."""
    episode, low, high = env.start(task, KEY), 1, 9
    for turn in range(1, 9):
        guess = (low + high) // 2
        step = episode.step(said(guess))
        if step.done:
            return step.verdict, turn
        low, high = (low, guess - 1) if "Less" in step.messages[0].content else (guess + 1, high)
    raise AssertionError("halving 9 numbers takes 4 guesses")


def test_a_text_environment_is_played_in_a_process_of_its_own():
    env = Gym(name="texts:Guess")
    task = env.tasks("train")[0]
    assert "Guess a number from 1 to 9." in task.messages[0].content and task.messages[0].content.count("<answer>") == 1
    verdict, turns = search(env, task)
    assert verdict.status is Status.CORRECT and verdict.reward == 1 and turns <= 4


def test_what_a_library_expects_is_handed_on_in_its_own_form_and_once():
    gem = Gem(name="game:Guess")
    verdict, _ = search(gem, gem.tasks("train")[1])
    assert verdict.status is Status.CORRECT
    assert gem.canonical(r"\frac{1}{2}") == r"\boxed{\frac{1}{2}}" and gem.canonical(r"\boxed{4}") == r"\boxed{4}"
    assert gem.canonical(r"3} \boxed{4") == gem.canonical("3}{4") == gem.canonical("{" * 5000 + "3") == ""
    assert TextArena.canonical(None, "fold") == TextArena.canonical(None, "[fold]") == "[fold]"
    assert TextArena.canonical(None, "[fold] or [bet]") == TextArena.canonical(None, "[" * 5000 + "3") == ""


@pytest.mark.long
def test_it_passes_the_conformance_suite():
    report = check_env(Gym(name="texts:Guess", turns=6), tasks=12)
    assert report.passed, str(report)


def test_episodes_side_by_side_do_not_share_a_generator():
    env = Gym(name="texts:Global")
    tasks = [env.tasks("train")[index] for index in range(6)]
    alone = [search(env, task) for task in tasks]
    episodes = [env.start(task, KEY) for task in tasks]
    for episode, (_, turns) in zip(episodes, alone, strict=True):
        episode.step(said(turns))
    assert [search(env, task) for task in tasks] == alone


def test_an_environment_that_does_not_honour_its_seed_is_refused():
    with pytest.raises(ConfigError, match=r"E175.*ignores its seed"):
        Gym(name="texts:Unseeded")
    env = Gym(name="texts:Unseeded", reproducible=False)
    assert env.start(env.tasks("train")[0], KEY).messages


@pytest.mark.parametrize(
    ("reply", "code"),
    [("raise", "E171"), ("exit", "E172"), ("nan", "E174"), ("rich", "E174"), ("number", "E171"), ("forge", "E173")],
)
def test_a_failure_of_the_environment_has_a_type_and_is_no_verdict(reply, code):
    env = Gym(name="texts:Failing")
    episode = env.start(env.tasks("train")[0], KEY)
    with pytest.raises(VerifierError, match=code):
        episode.step(said(reply))


@pytest.mark.parametrize("reply", ["sleep", "spin"])
def test_a_reply_that_takes_too_long_ends_the_episode_and_the_process(reply):
    env = Gym(name="texts:Failing", seconds=0.5, low=-1.0)
    episode, began = env.start(env.tasks("train")[0], KEY), time.monotonic()
    verdict = episode.step(said(reply)).verdict
    assert verdict.status is Status.EXCEEDED and verdict.reward == -1
    assert time.monotonic() - began < 10
    with pytest.raises(ValueError, match="over"):
        episode.step(said(1))


def test_stalling_pays_the_least():
    env = Gym(name="texts:Guess", turns=3, low=-1.0)
    verdict = play(env, env.tasks("train")[0], lambda episode, turn: said("later")).verdicts[0]
    assert verdict.status is Status.WRONG and verdict.reward == -1 and "not over" in verdict.detail


def test_a_host_that_was_killed_is_started_again():
    env = Gym(name="texts:Guess")
    task = env.tasks("train")[0]
    before = search(env, task)
    for host in HOSTS.values():
        host._process.kill()
        host._process.wait()
    assert search(env, task) == before


ORPHANS = """
import os, subprocess, sys, time
from dataclasses import replace
sys.path.insert(0, os.getcwd())
from gnomon.integrations.environments import Gym
from gnomon.integrations.environments.hosting import HOSTS, host
from gnomon.keys import Key
from threading import Thread

def pids():
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}

how = sys.argv[1]
before = pids()
if how == "loading":
    Thread(target=lambda: host(sys.executable, "gym", "hangs:Loads", "{}").conversation(), daemon=True).start()
    time.sleep(1.5)
else:
    env = Gym(name="hangs:Hangs")
    episode = env.start(env.tasks("train")[0], Key(0))
    Thread(target=lambda: episode.step(f"<answer>{how}</answer>"), daemon=True).start()
    time.sleep(1.5)
print(*(pids() - before), flush=True)
time.sleep(600)
"""
HANGS = """
import os, re, subprocess, time

class Hangs:
    def reset(self, seed):
        return "Say something.", {}

    def step(self, text):
        if text == "busy":
            while True:
                pass
        if text == "busy outside Python":
            re.match("(a+)+b", "a" * 64)
        if text == "daemon":
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
            time.sleep(600)
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        return "", 0.0, text == "over", False, {}

def Loads():
    while True:
        pass
"""


@pytest.mark.parametrize("how", ["loading", "busy", "busy outside Python", "daemon", "child"])
def test_nothing_outlives_a_trainer_that_was_killed(how, tmp_path):
    """Every process that came to be under it is gone, whatever it was doing and whatever session it made."""
    (tmp_path / "hangs.py").write_text(HANGS)
    trainer = subprocess.Popen([sys.executable, "-c", ORPHANS, how], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert trainer.stdout is not None
    started = [int(word) for word in trainer.stdout.readline().split()]
    ours = [pid for pid in started if ours_is(pid, tmp_path)]
    assert len(ours) >= 2, started
    trainer.kill()
    trainer.communicate()
    gone(ours)


def test_what_an_episode_started_ends_with_it(tmp_path, monkeypatch):
    (tmp_path / "hangs.py").write_text(HANGS)
    monkeypatch.chdir(tmp_path)
    env = Gym(name="hangs:Hangs")
    episode = env.start(env.tasks("train")[0], KEY)
    assert not episode.step(said("go on")).done
    deadline, sleeping = time.monotonic() + 10, []
    while not sleeping and time.monotonic() < deadline:  # A process has its name only once it executes its program.
        sleeping = [pid for pid in running() if ours_is(pid, tmp_path) and b"sleep" in command_of(pid)]
    assert len(sleeping) == 1
    episode.close()
    gone(sleeping)


def running():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def ours_is(pid, folder):
    """Whether a process was started from this folder."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def gone(pids):
    """Wait until none of the processes runs; a zombie does not."""

    def runs(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    deadline = time.monotonic() + 15
    while (left := [pid for pid in pids if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, [command_of(pid) for pid in left]


def test_what_cannot_be_loaded_says_what_is_missing():
    with pytest.raises(ResourceError, match=r"E170.*cannot be loaded") as caught:
        Gym(name="texts:Nothing")
    assert "python=PATH" in str(caught.value) and "Nothing" in str(caught.value)
    with pytest.raises(ResourceError, match=r"E170.*cannot be run"):
        Gym(name="texts:Guess", python="/no/such/python")


def test_a_game_for_two_gives_each_player_its_own_news_and_who_moves_first_player_0():
    env = TextArena(name="Bids-v0")
    assert env.players == 2
    task = env.tasks("train")[0]
    assert "Your card is" in task.messages[0].content
    episode = env.start(task, KEY)
    step = episode.step(said(7))
    assert (
        step.player == 1 and "Your card is" in step.messages[0].content and "[Player 1] [7]" in step.messages[0].content
    )
    end = episode.step(said(3))
    assert [verdict.reward for verdict in end.verdicts] == [1, -1]
    assert [verdict.status for verdict in end.verdicts] == [Status.CORRECT, Status.WRONG]


def test_a_run_plays_it_through_killable_workers():
    """As a training run does: the pool forks, and its workers use the one host that was started before."""
    env = pickle.loads(pickle.dumps(TextArena(name="Bids-v0")))
    episodes = [(env.tasks("train")[0], KEY, [said(a), said(b)]) for a, b in ((1, 2), (2, 1), (5, 5))]
    steps = last_steps(env, episodes, workers=2)
    assert [[verdict.reward for verdict in step.verdicts] for step in steps] == [[-1, 1], [1, -1], [0, 0]]


def test_an_environment_of_verifiers_runs_its_own_control_flow():
    env = VerifiersEnv(name="sums", count=40, turns=1)
    train, test = env.tasks("train"), env.tasks("test")
    assert len(train) + len(test) == 40 and {split_of(task.id) for task in test} <= {"train", "test"}
    task = train[0]
    number = int(task.messages[-1].content.split()[2])
    assert task.messages[0].role == "system" and task.messages[0].content == "Only the number."
    assert env.start(task, KEY).step(str(2 * number)).verdict.correct
    assert env.start(task, KEY).step("no idea").verdict.reward == 0


def test_its_turns_are_told_what_it_says():
    env = VerifiersEnv(name="echo", count=40, turns=4)
    task = env.tasks("train")[0]
    episode = env.start(task, KEY)
    assert episode.step("seven").messages[0].content == "You said seven."
    number = int(task.messages[-1].content.split()[2])
    assert episode.step(str(2 * number)).verdict.correct


def test_a_second_agent_is_refused_and_not_made_up():
    env = VerifiersEnv(name="two", count=40, turns=1)
    with pytest.raises(VerifierError, match="second agent"):
        env.start(env.tasks("train")[0], KEY).step("1")


def test_names_of_other_libraries_stand_where_an_environment_is_named(tmp_path):
    from gnomon.config import Env as EnvConfig
    from gnomon.run.find import check_env_config, env_class
    from gnomon.run.objects import spec_of

    env = make_env(EnvConfig(type="gym:texts:Guess", turns=7, options={"largest": 5}))
    assert isinstance(env, Gym) and env.name == "texts:Guess" and env.turns == 7 and env.options == {"largest": 5}
    assert make_judge("gym:texts:Guess", {"turns": 2}).turns == 2
    spec = spec_of(env)
    kind = spec.pop("type")
    assert env_class(kind)(**spec) == env
    assert adapter("countdown") is None and adapter("gem:") is None
    assert callable(check_env_config)


def test_a_trusted_scorer_judges_and_tasks_of_two_splits_never_meet():
    pytest.importorskip("reasoning_gym")
    env = ReasoningGym(name="leg_counting")
    tasks = env.tasks("train")
    assert env.verify(tasks[0], said(tasks[0].answer)).correct and not env.verify(tasks[0], said(0)).correct
    seeds = {tasks[index].info["seed"] for index in range(50)} | {env.tasks("test")[i].info["seed"] for i in range(50)}
    assert len(seeds) == 100 and not {seed + 1 for seed in seeds} & seeds


def test_a_scorer_that_is_not_trusted_is_refused_unless_it_is_named():
    pytest.importorskip("reasoning_gym")
    with pytest.raises(ConfigError, match=r"E176.*puzzle24"):
        ReasoningGym(name="puzzle24")
    assert ReasoningGym(name="puzzle24", acknowledged="puzzle24").tasks("train")[0].messages
    with pytest.raises(ConfigError, match="E176") as caught:
        ReasoningGym(name="acre", exact=False)
    assert "exact=true" in str(caught.value)


def test_exact_pays_nothing_for_what_is_partly_right():
    pytest.importorskip("reasoning_gym")
    loose = ReasoningGym(name="acre", exact=False, acknowledged="acre")
    exact = ReasoningGym(name="acre")
    task = exact.tasks("train")[0]
    partial = [
        reply
        for reply in map(said, ("None", "on", "off", task.answer + "."))
        if 0 < loose.verify(task, reply).reward < 1
    ]
    assert partial, "one of these earns a part"
    assert all(exact.verify(task, reply).reward == 0 for reply in partial)
    assert exact.verify(task, said(task.answer)).reward == 1
