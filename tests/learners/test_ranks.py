"""A learner of several processes: its sums do not depend on their number, and it ends with any of them.

Real processes over gloo, real policies. The rows are one of each reach and each need that a learner treats apart; the
episodes have one turn, several turns, and two players.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from commands import command
from gnomon.config import Source, resolve
from gnomon.errors import NumericsError, ResourceError
from gnomon.keys import Key
from gnomon.learners import Batch, Learner
from gnomon.learners.base import Model, Named
from gnomon.learners.remote import RemoteLearner
from gnomon.objectives import objective
from gnomon.rollout import pack
from gnomon.run.makers import make_objective
from gnomon.run.parts import Parts, make_trainer, open_parts
from gnomon.run.ranks import start_ranks
from gnomon.store import RunReader
from gnomon.workers.serialise import pack_value
from learners.sequences import credited

RANKS = (1, 2, 4)
EPISODES = {
    "char_count": {"env": {"type": "char_count", "format": 0}},
    "calculator": {"env": {"type": "calculator"}},
    "nim": {"env": {"type": "nim"}},
}
ROWS = {
    "char_count": ("grpo", "maxrl", "gspo", "tba", "rl_zvp", "otb"),
    "calculator": ("dr_grpo", "online_simpo", "echo"),
    "nim": ("dr_grpo",),
}
PENALISED = ("dr_grpo", "tba")
"""Rows that are trained with a KL penalty too, so that the reference is asked."""
ROUNDING = 2e-5
"""Of the largest part of a gradient: float32 sums of up to a thousand tokens, in another order."""


def config_of(**settings):
    base = {"rollout": {"prompts": 3, "group": 4, "max_tokens": 16}, "optim": {"micro_batch": 60, "lr": 1e-3}}
    base |= {"regularize": {"kl": 0.01}, "env": {"type": "char_count", "format": 0}}
    return resolve([Source(base | settings, {})])[0]


@pytest.fixture(scope="module")
def learners() -> Iterator[dict[int, Learner]]:
    """One in this process (0), and of several processes, by their number."""
    config = config_of()
    row = make_objective(config)
    with ExitStack() as stack:
        found = {ranks: make_trainer(config.model_copy(update={"ranks": ranks}), row) for ranks in (0, *RANKS)}
        for learner in found.values():
            if isinstance(learner, RemoteLearner):
                stack.callback(learner.close)
        yield found


@pytest.fixture(scope="module")
def begin(learners, tmp_path_factory) -> Path:
    """The state before any step."""
    folder = tmp_path_factory.mktemp("begin")
    learners[0].save_state(folder)
    return folder


def collected(parts: Parts) -> Batch:
    parts.engine.load(parts.learner.publish())
    tasks = [(i, parts.env.tasks("train")[i]) for i in range(3)]
    groups = asyncio.run(parts.actor.collect(tasks, Key(3).at("test")))
    return pack(groups, sampling=parts.actor.sampling, exact=True, limit=parts.actor.longest)


@pytest.fixture(scope="module")
def batches() -> dict[str, Batch]:
    found = {}
    for name, settings in EPISODES.items():
        with open_parts(config_of(**settings)) as parts:
            batch = collected(parts)
            rewards = torch.arange(batch.rollouts.rewards.numel()).reshape(batch.rollouts.rewards.shape) % 3 == 0
            found[name] = replace(batch, rollouts=replace(batch.rollouts, rewards=rewards.double()))
    return found


def two_updates(
    learner: Learner, batch: Batch, name: str, begin: Path, folder: Path, lr: float = 1e-3
) -> dict[str, Tensor]:
    """Files and statistics after credit and two optimiser steps on the same batch."""
    row = Named(name=name, penalty="k3" if name in PENALISED else "", penalty_weight=0.01).row()
    learner.load_state(begin)
    ready = credited(learner, batch, row, updates=2)
    stats = []
    for _ in range(2):
        stats.append(learner.forward_backward(ready, row) | learner.optim_step(lr))
    learner.save_state(folder)
    shared = sorted(set(stats[0]) - {"score_signal", "score_scatter"})
    values = [float(found[key].value) for found in stats for key in shared]
    scores = learner.score(batch.sequences) + learner.score(batch.sequences, 1.0, Model.REFERENCE)
    return {
        **load_file(folder / "model.safetensors"),
        **load_file(folder / "optimizer.safetensors"),
        "stats": torch.tensor(values, dtype=torch.float64),
        "scores": torch.cat([torch.from_numpy(score) for score in scores]),
    }


def distance(found: dict[str, Tensor], wanted: dict[str, Tensor], ending: str) -> float:
    """Largest difference of the tensors with this ending, relative to their largest part."""
    names = [name for name in wanted if name.endswith(ending)]
    size = max(float(wanted[name].abs().max()) for name in names)
    assert size > 1e-7
    return max(float((found[name] - wanted[name]).abs().max()) for name in names) / size


@pytest.mark.parametrize(("episodes", "name"), [(kind, row) for kind, rows in ROWS.items() for row in rows])
@pytest.mark.long
def test_every_bit_is_the_same_for_any_number_of_ranks(learners, batches, begin, tmp_path, episodes, name):
    """Weights, optimiser states, scores and statistics after two updates; and those of one process up to rounding."""
    batch = batches[episodes]
    found = {
        ranks: two_updates(learner, batch, name, begin, tmp_path / str(ranks)) for ranks, learner in learners.items()
    }
    assert len(batch.micro_batches(60)) >= 3
    for ranks in (2, 4):
        assert found[ranks].keys() == found[1].keys()
        assert not [key for key, value in found[1].items() if not torch.equal(value, found[ranks][key])]
    assert distance(found[2], found[0], "/exp_avg") < ROUNDING
    assert torch.allclose(found[2]["stats"], found[0]["stats"], rtol=1e-4, atol=1e-6)


@pytest.mark.long
def test_a_state_loads_at_any_number_of_ranks(learners, batches, begin, tmp_path):
    """Saved by four processes, by one, by this one: the step that follows has the same bits in each of the others."""
    batch = replace(batches["char_count"], exact=False)
    two_updates(learners[4], batch, "grpo", begin, tmp_path / "saved")
    bodies = {}
    for ranks in (1, 2, 4):
        after = tmp_path / f"after-{ranks}"
        bodies[ranks] = two_updates(learners[ranks], batch, "grpo", tmp_path / "saved", after)
        assert (after / "optimizer.safetensors").read_bytes() == (
            tmp_path / "after-1/optimizer.safetensors"
        ).read_bytes()
    local = two_updates(learners[0], batch, "grpo", tmp_path / "saved", tmp_path / "local")
    assert int(local["version"]) == int(bodies[1]["version"]) == 4
    assert distance(bodies[2], local, "/exp_avg") < 10 * ROUNDING
    back = two_updates(learners[2], batch, "grpo", tmp_path / "local", tmp_path / "back")
    again = two_updates(learners[4], batch, "grpo", tmp_path / "local", tmp_path / "again")
    assert all(torch.equal(value, again[key]) for key, value in back.items())


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": {"dtype": "bfloat16"}},
        {"policy": {"dtype": "bfloat16", "lora": {"rank": 1}}, "regularize": {"kl": 0.1, "estimator": "full"}},
        {"regularize": {"kl": 0.1, "estimator": "full", "entropy": 0.01}, "policy": {"activation_checkpointing": True}},
        {"policy": {"dtype": "float16"}},
        {"policy": {"dtype": "float16", "lora": {"rank": 1}}},
    ],
    ids=["bf16", "bf16 lora full kl", "full kl and entropy", "float16", "float16 lora"],
)
@pytest.mark.long
def test_the_gradient_is_that_of_one_process(settings, tmp_path):
    """For other precisions, adapters and terms, with two ranks. bfloat16 is added in float32 on both sides."""
    config, row = config_of(**settings), objective("dr_grpo")
    learners = [make_trainer(config.model_copy(update={"ranks": ranks}), row) for ranks in (0, 2)]
    with open_parts(config) as parts:
        batch = collected(parts)
    try:
        learners[0].save_state(tmp_path / "begin")
        files = []
        for place, learner in enumerate(learners):
            learner.load_state(tmp_path / "begin")
            ready = replace(credited(learner, batch, row), exact=False)
            for _ in range(30):  # In float16, steps are left out until the scale of the loss fits.
                learner.forward_backward(replace(ready, advantage=torch.ones(len(ready)).double()), row)
                if "grad_norm" in learner.optim_step(1e-3):
                    break
            learner.save_state(tmp_path / str(place))
            files.append(load_file(tmp_path / str(place) / "optimizer.safetensors"))
    finally:
        learners[1].close()
    assert files[0].keys() == files[1].keys()
    coarse = settings["policy"].get("dtype") == "float16"
    assert not coarse or torch.equal(files[0]["loss_scale"], files[1]["loss_scale"])
    assert distance(files[1], files[0], "/exp_avg") < ROUNDING


@pytest.mark.long
def test_sgd_with_momentum_has_the_same_bits_for_any_number_of_ranks(batches, tmp_path):
    """Two updates, saved and loaded between two more; and those of one process up to rounding."""
    config = config_of(optim={"type": "sgd", "momentum": 0.9, "lr": 0.3, "micro_batch": 60})
    row, found = make_objective(config), {}
    batch = replace(batches["char_count"], exact=False)
    for ranks in (0, 1, 2):
        with closing_learner(make_trainer(config.model_copy(update={"ranks": ranks}), row)) as learner:
            learner.save_state(tmp_path / "begin")
            two_updates(learner, batch, "grpo", tmp_path / "begin", tmp_path / "middle", lr=0.3)
            found[ranks] = two_updates(learner, batch, "grpo", tmp_path / "middle", tmp_path / str(ranks), lr=0.3)
    assert len([key for key in found[1] if key.endswith("/momentum_buffer")]) > 10
    assert found[1].keys() == found[2].keys()
    assert not [key for key, value in found[1].items() if not torch.equal(value, found[2][key])]
    assert distance(found[2], found[0], "/momentum_buffer") < 10 * ROUNDING


@contextmanager
def closing_learner(learner: Learner) -> Iterator[Learner]:
    """Ends the processes of a learner that has some."""
    try:
        yield learner
    finally:
        if isinstance(learner, RemoteLearner):
            learner.close()


@pytest.mark.long
def test_an_error_of_the_learner_arrives_and_it_goes_on(learners, batches, begin, tmp_path):
    """E203 is raised by all ranks alike, and no weight has moved."""
    learner, row = learners[2], objective("reinforce")
    learner.load_state(begin)
    ready = credited(learner, batches["char_count"], row)
    broken = replace(ready, advantage=torch.full((len(ready),), torch.inf).double())
    learner.forward_backward(broken, row)
    with pytest.raises(NumericsError, match="E203"):
        learner.optim_step(1e-3)
    learner.save_state(tmp_path / "after")
    before, after = load_file(begin / "model.safetensors"), load_file(tmp_path / "after" / "model.safetensors")
    assert all(torch.equal(value, after[key]) for key, value in before.items())
    learner.forward_backward(ready, row)
    assert learner.optim_step(1e-3)["grad_norm"].value > 1e-5


@pytest.mark.long
def test_an_error_of_one_rank_ends_all(batches):
    """E202 in the micro-batch of one rank: the other waits for it, and is ended. The error is the one raised."""
    before = processes()
    learner = start_ranks(config_of(ranks=2), objective("reinforce"))
    assert len(processes() - before) == 3
    batch = credited(learner, batches["char_count"], objective("reinforce"))
    batch = replace(batch, advantage=torch.ones(len(batch)).double())
    wrong = batch.micro_batches(60)[1][0]
    sequences = list(batch.sequences)
    sequences[wrong] = replace(sequences[wrong], behavior_logp=sequences[wrong].behavior_logp - 1e-3)
    with pytest.raises(NumericsError, match="E202"):
        learner.forward_backward(replace(batch, sequences=tuple(sequences)), objective("reinforce"))
    assert not processes() - before
    with pytest.raises(ResourceError, match="E509"):
        learner.publish()


def processes(root: int | None = None) -> set[int]:
    """The launchers and ranks among the descendants of a process, by default this one."""
    parents, named = {}, set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"gnomon.run.ranks" in (path / "cmdline").read_bytes():
                named.add(int(path.name))
        except OSError:
            continue
    found, wave = set(), {root or os.getpid()}
    while wave:
        wave = {pid for pid, parent in parents.items() if parent in wave} - found
        found |= wave
    return found & named


def alive(pids: set[int]) -> set[int]:
    """Those that still run; one that only waits to be reaped does not."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            found |= set() if state == "Z" else {pid}
    return found


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return as soon as `holds()`. Raises: AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.long
def test_a_killed_rank_ends_all_and_says_so():
    before = processes()
    learner = start_ranks(config_of(ranks=2), objective("reinforce"))
    _, *ranks = sorted(processes() - before)
    os.kill(ranks[1], signal.SIGKILL)
    with pytest.raises(ResourceError, match=r"(?s)E509.*killed by signal 9.*gnomon resume"):
        for _ in range(3):
            learner.publish()
    assert not processes() - before


@pytest.mark.long
@pytest.mark.parametrize("verb", ["publish", "score"])
def test_a_stopped_rank_is_noticed(batches, verb):
    """It answers nothing, and does not take a message that is longer than the buffer of its channel."""
    before = processes()
    learner = start_ranks(config_of(ranks=2, launch={"seconds": 2.0}), objective("reinforce"))
    _, *ranks = sorted(processes() - before)
    sequences = [deepcopy(one) for one in batches["char_count"].sequences for _ in range(200)]
    assert len(pack_value(sequences)) > 2**20
    os.kill(ranks[1], signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(ResourceError, match=r"(?s)E509.*learner hangs.*launch.seconds=2.*fix: gnomon resume"):
        learner.score(sequences) if verb == "score" else learner.publish()
    assert 2.0 <= time.monotonic() - began < 60.0  # Without signs of life, it would take ten minutes or more.
    assert not processes() - before


@pytest.mark.long
def test_a_rank_that_waits_for_ever_is_noticed(batches):
    """It gives signs of life, and never comes to the next collective of torch."""
    before = processes()
    row = objective("reinforce")
    learner = start_ranks(config_of(ranks=2, launch={"seconds": 20.0}), row)
    ready = replace(credited(learner, batches["char_count"], row), exact=False)
    waiting = replace(row, ratio=late)
    with pytest.raises(ResourceError, match=r"(?s)E509.*learner hangs.*Timed out waiting"):
        learner.forward_backward(replace(ready, advantage=torch.ones(len(ready)).double()), waiting)
    assert not processes() - before


def late(tokens):
    """The ratio of `reinforce`, which one of two processes does not compute."""
    time.sleep(600 * torch.distributed.get_rank())
    return objective("reinforce").ratio(tokens)


@pytest.mark.long
@pytest.mark.parametrize("first", ["run", "rank"])
def test_nothing_is_left_of_a_run_that_was_killed(tmp_path, first):
    """Neither a process nor a file of the learner, some seconds after SIGKILL.

    With `first="rank"` the run is killed before it has read which of its ranks ended.
    """
    words = [sys.executable, "-m", "gnomon", *RUN, "ranks=2", f"run={tmp_path / 'run'}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (tmp_path / "run" / "checkpoints" / "000002").is_dir():
            assert run.poll() is None
            time.sleep(0.02)
        ours = processes(run.pid)
        launcher = Path(f"/proc/{min(ours)}/cmdline").read_text().split("\0")
        (folder,) = [Path(word) for word in launcher if "gnomon-ranks-" in word]
        assert len(ours) == 3 and folder.is_dir()
        if first == "rank":
            run.send_signal(signal.SIGSTOP)
            os.kill(max(ours), signal.SIGKILL)
            wait_until(lambda: alive(ours) == {min(ours)})
        run.kill()
    wait_until(lambda: not alive(ours) and not folder.exists())


CRITICS = {
    "char_count": {},
    "calculator": {"env": {"type": "calculator"}},
    "nim": {"env": {"type": "nim"}},
    "bf16": {"policy": {"dtype": "bfloat16"}},
    "float16": {"policy": {"dtype": "float16"}},
    "lora": {"policy": {"lora": {"rank": 2}}},
    "recomputed": {"policy": {"activation_checkpointing": True}},
}
"""Settings of runs with a critic: of each kind of episode, dtype and policy."""


@pytest.mark.parametrize("settings", CRITICS.values(), ids=CRITICS)
@pytest.mark.long
def test_a_critic_has_the_same_bits_for_any_number_of_ranks(settings, tmp_path):
    """Two steps of two updates with value clipping, a state saved by 4 ranks between them; and those of one process.

    Compared: the weights and moments of policy and critic, values, and statistics.
    """
    config = config_of(**(settings | {"objective": {"type": "ppo", "value_clip": 0.05}, "critic": {"lr": 1e-3}}))
    row, found = make_objective(config), {}
    with open_parts(config) as parts:
        batch = collected(parts)
    rewards = torch.arange(batch.rollouts.rewards.numel()).reshape(batch.rollouts.rewards.shape) % 3 == 0
    batch = replace(batch, rollouts=replace(batch.rollouts, rewards=rewards.double()), exact=False)
    assert len(batch.micro_batches(60)) >= 3
    for ranks in (4, 0, 1, 2):
        with closing_learner(make_trainer(config.model_copy(update={"ranks": ranks}), row)) as learner:
            middle = tmp_path / f"middle-{ranks}"
            if ranks == 4:
                learner.save_state(tmp_path / "begin")
            first = critic_updates(learner, batch, row, tmp_path / "begin", middle)
            second = critic_updates(learner, batch, row, tmp_path / "middle-4", tmp_path / str(ranks))
            found[ranks] = {f"first/{key}": value for key, value in first.items()}
            found[ranks] |= {f"second/{key}": value for key, value in second.items()}
    for ranks in (2, 4):
        assert found[ranks].keys() == found[1].keys()
        assert not [key for key, value in found[1].items() if not torch.equal(value, found[ranks][key])]
    moments = [key for key in found[1] if key.startswith("first/critic/exp_avg/")]
    assert "first/critic/exp_avg/value.weight" in moments and "first/critic/exp_avg/value.bias" in moments
    # The critic goes on learning from the state that was loaded.
    assert float((found[1]["second/values"] - found[1]["first/values"]).abs().max()) > 1e-3
    mine = {key: value for key, value in found[0].items() if "/critic/exp_avg/" in key and key in found[1]}
    assert len(mine) >= 2 * (len(moments) - 2)
    assert distance(found[2], mine, "") < 10 * ROUNDING


def critic_updates(learner: Learner, batch: Batch, row, begin: Path, folder: Path) -> dict[str, Tensor]:
    """Files, values and statistics after credit and two optimiser steps on the same batch."""
    learner.load_state(begin)
    ready = credited(learner, batch, row, updates=2)
    stats = []
    for _ in range(2):
        stats.append(learner.forward_backward(ready, row) | learner.optim_step(1e-3))
    learner.save_state(folder)
    names = sorted(set.union(*map(set, stats)) & {"value_error", "value_explained", "value_grad_norm", "grad_norm"})
    values = [float(each[key].value) for each in stats for key in names if key in each]
    read = learner.score(batch.sequences, 1.0, Model.CRITIC)
    return {
        **{f"policy/{key}": value for key, value in load_file(folder / "optimizer.safetensors").items()},
        **{f"critic/{key}": value for key, value in load_file(folder / "critic.safetensors").items()},
        "stats": torch.tensor(values, dtype=torch.float64),
        "values": torch.cat([torch.from_numpy(value) for value in read]).double(),
    }


@pytest.mark.long
def test_a_run_with_a_critic_that_is_resumed_with_fewer_ranks_ends_the_same(tmp_path):
    folder, critic = tmp_path / "run", ["objective=ppo"]
    interrupted([*RUN, *critic, "ranks=2", f"run={folder}"], folder, "000003")
    assert "finished" in command("resume", str(folder), "ranks=1").stdout
    assert command(*RUN, *critic, "ranks=1", f"run={tmp_path / 'whole'}").returncode == 0
    with RunReader(folder) as run, RunReader(tmp_path / "whole") as whole:
        assert run.fingerprint == whole.fingerprint
    assert alike(folder, tmp_path / "whole")


RUN = ["train", "char_count", "budget.steps=8", "eval.tasks=4", "eval.samples=1", "rollout.prompts=3"]
RUN += ["rollout.group=4", "optim.micro_batch=60", "save.every=2", "eval.every=100"]


@pytest.mark.long
def test_a_run_whose_rank_is_killed_ends_the_same_with_other_ranks(tmp_path):
    """Two ranks, one of which is killed after two steps, resumed with four; and one rank to the end."""
    two = tmp_path / "two"
    words = [sys.executable, "-m", "gnomon", *RUN, "ranks=2", f"run={two}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while not (two / "checkpoints" / "000002").is_dir():
            assert run.poll() is None
            time.sleep(0.02)
        _, *ranks = sorted(ours := processes(run.pid))
        os.kill(ranks[0], signal.SIGKILL)
        error = run.communicate()[1]
    assert run.returncode == 1 and "E509" in error and "Traceback" not in error
    assert not alive(ours)
    assert "finished" in command("resume", str(two), "ranks=4").stdout
    assert command(*RUN, "ranks=1", f"run={tmp_path / 'one'}").returncode == 0
    with RunReader(tmp_path / "one") as one, RunReader(two) as resumed:
        assert one.fingerprint == resumed.fingerprint
        assert one.manifest["tier"] == resumed.manifest["tier"] == "exact"


@pytest.mark.long
def test_a_run_that_is_resumed_with_fewer_ranks_again_and_again_ends_the_same(tmp_path):
    """Four ranks, then two, then one: interrupted in between. Two ranks to the end have its fingerprint."""
    folder = tmp_path / "run"
    first = [*RUN, "ranks=4", f"run={folder}"]
    for words, checkpoint in ((first, "000002"), (["resume", str(folder), "ranks=2"], "000005")):
        interrupted(words, folder, checkpoint)
    assert "finished" in command("resume", str(folder), "ranks=1").stdout
    assert command(*RUN, "ranks=2", f"run={tmp_path / 'two'}").returncode == 0
    with RunReader(folder) as run, RunReader(tmp_path / "two") as two:
        assert run.fingerprint == two.fingerprint
    assert alike(folder, tmp_path / "two")


def interrupted(words: list[str], folder: Path, checkpoint: str) -> None:
    """Run a command until there is a checkpoint of this step or a later one, and ask it to stop."""
    with subprocess.Popen([sys.executable, "-m", "gnomon", *words], stdout=subprocess.DEVNULL) as run:
        while not [path for path in (folder / "checkpoints").glob("[0-9]*") if path.name >= checkpoint]:
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
    with RunReader(folder) as reader:
        assert not reader.complete


def alike(one: Path, other: Path) -> bool:
    """Whether the last checkpoints of two runs have the same weights and optimiser states, in every bit."""
    newest = [max((folder / "checkpoints").glob("[0-9]*")) for folder in (one, other)]
    names = [{path.name for path in folder.glob("*.safetensors")} for folder in newest]
    assert names[0] == names[1] >= {"model.safetensors", "optimizer.safetensors"}
    for name in names[0]:  # Whose tensors lie in another order after a resume.
        first, second = (load_file(folder / name) for folder in newest)
        if first.keys() != second.keys() or not all(torch.equal(first[key], second[key]) for key in first):
            return False
    return True


IGNORING = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from gnomon.config import Source, resolve
from gnomon.run.makers import make_objective
from gnomon.run.ranks import start_ranks
config, _ = resolve([Source({"env": "char_count", "ranks": 1}, {})])
start_ranks(config, make_objective(config))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_no_file_is_left_by_a_killed_process_that_ignores_the_ends_of_children(tmp_path):
    """As the workers of Ray do: what is started there ignores them too."""
    subprocess.run([sys.executable, "-c", IGNORING], env={**os.environ, "TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 10.0
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not list(tmp_path.iterdir())
