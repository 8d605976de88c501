"""A run whose learner is on a server has the bytes of one whose learner is in its process; its messages run no code."""

from __future__ import annotations

import itertools
import random
import select
import socket
import threading
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
import torch

import gnomon
from commands import command
from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.errors import ConfigError, ConfigErrors, ResourceError
from gnomon.learners import served
from gnomon.learners.base import Model, Named
from gnomon.learners.served import ALIVE, ServedLearner
from gnomon.learners.verbs import write_files
from gnomon.learners.wire import dumps, loads
from gnomon.models.weights import Kind, WeightsRef
from gnomon.objectives import Coefficients
from gnomon.run.learner_server import LearnerServer
from gnomon.run.makers.served import TOKEN, make_served, named_objective, of_learner
from gnomon.run.mismatch import lines
from gnomon.stats import At, Max, Mean, Quantile, Sum
from gnomon.store import RunReader
from learners.sequences import made

COMMON = ["budget.steps=3", "eval.tasks=4", "eval.samples=1", "rollout.prompts=3", "rollout.group=4", "save.every=1"]
RUNS = {
    "one turn, two updates, KL": ["env=char_count", "regularize.kl=0.01", "optim.epochs=2"],
    "several turns, GSPO": ["env=calculator", "objective=gspo", "rollout.max_tokens=24"],
    "several turns, observations": ["env=calculator", "objective=echo", "rollout.max_tokens=24", "optim.epochs=2"],
    "two players, lag, entropy term": ["env=nim", "rollout.lag=1", "regularize.entropy=0.01"],
    "a critic, two processes' worth of micro-batches": ["env=char_count", "objective=ppo", "optim.micro_batch=60"],
    "an adapter, full KL": [
        "env=char_count", "policy.lora.rank=1", "regularize.kl=0.1", "regularize.estimator=full"
    ],
    "a reference that reads the answer": ["env=char_count", "objective=opsd"],
    "SGD with momentum": ["env=char_count", "optim.type=sgd", "optim.lr=0.3", "optim.momentum=0.9"],
    "a learner of two processes": ["env=char_count", "ranks=2", "optim.micro_batch=60"],
}  # fmt: skip


def config_of(words: Sequence[str]) -> RunConfig:
    return resolve([Source({}, {}), overrides([*words, *COMMON])])[0]


@contextmanager
def serving(words: Sequence[str], token: str = "") -> Iterator[LearnerServer]:
    server = LearnerServer(config_of(words), token=token)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


def run(folder: Path, words: Sequence[str], *more: str, token: str = "") -> RunReader:
    env = words[0].removeprefix("env=")
    done = command("train", env, *words[1:], *COMMON, *more, f"run={folder}", env={TOKEN: token})
    assert done.returncode == 0, done.stderr
    return RunReader(folder)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.long
def test_a_run_has_the_same_bytes_as_in_its_process(tmp_path, name):
    """Fingerprint, tier and checkpoint; the server's own process keeps one learner."""
    with run(tmp_path / "here", RUNS[name]) as here, serving(RUNS[name]) as server:
        with run(tmp_path / "there", RUNS[name], f"learner={server.url}", token=server.token) as there:
            assert here.fingerprint == there.fingerprint and there.complete
            assert here.manifest["tier"] == there.manifest["tier"]
        states = [sorted((tmp_path / side / "checkpoints" / "000003").rglob("*")) for side in ("here", "there")]
        assert [path.name for path in states[0]] == [path.name for path in states[1]]
        for one, other in zip(*states, strict=True):
            assert one.suffix != ".safetensors" or one.read_bytes() == other.read_bytes()


@pytest.mark.long
def test_a_run_goes_on_when_its_server_is_another_one_or_none(tmp_path):
    """One step with each of two servers, the last one in the run's own process."""
    words, there = RUNS["one turn, two updates, KL"], str(tmp_path / "there")
    train = ["train", "char_count", *words[1:], *COMMON, "budget.seconds=0.001", f"run={there}"]
    with serving(words, "t") as first:
        assert command(*train, f"learner={first.url}", env={TOKEN: "t"}).returncode in (0, 130)
    lost = command("resume", there, env={TOKEN: "t"})
    assert lost.returncode == 1 and "E508" in lost.stderr and "Traceback" not in lost.stderr
    with serving(words, "u") as second:
        assert command("resume", there, f"learner={second.url}", env={TOKEN: "u"}).returncode in (0, 130)
    assert command("resume", there, "learner=local").returncode == 0
    with run(tmp_path / "here", words, "budget.seconds=1000") as here, RunReader(there) as resumed:
        assert resumed.complete and here.fingerprint == resumed.fingerprint


def test_who_may_use_a_server_and_with_which_settings(monkeypatch):
    words = ["env=char_count"]
    monkeypatch.delenv(TOKEN, raising=False)
    with serving(words, token="right") as server:
        config = config_of([*words, f"learner={server.url}"])
        with pytest.raises(ConfigError, match=r"(?s)E048.*export GNOMON_LEARNER_TOKEN"):
            make_served(config)
        monkeypatch.setenv(TOKEN, "wrong")
        with pytest.raises(ResourceError, match=r"E508.*token"):
            make_served(config)
        monkeypatch.setenv(TOKEN, "right")
        other = config_of([*words, f"learner={server.url}", "optim.max_grad_norm=0.5", "objective=grpo"])
        with pytest.raises(
            ConfigError, match=r"(?s)E048.*objective.type is .*optim.max_grad_norm is 1.0 on the server"
        ):
            make_served(other)
        flex = config_of([*words, f"learner={server.url}", "policy.attention=flex"])
        with pytest.raises(
            ConfigError, match=r'(?s)attention is "exact" on.*fix: start the run with policy.attention=exact, or'
        ):
            make_served(flex)
        make_served(config_of([*words, f"learner={server.url}", "rollout.group=4", "optim.lr=1e-4"]))
        first = make_served(config)
        second = make_served(config)
        assert second.publish().version == 0
        with pytest.raises(ResourceError, match=r"(?s)E508.*another run has begun"):
            first.publish()
        with pytest.raises(ResourceError, match=r"(?s)E508.*no verb"):
            second._call("__init__")
        with pytest.raises(ResourceError, match=r"(?s)E508.*cannot carry out optim_step.*TypeError"):
            second._call("optim_step", 1.0, 2.0)
        assert second.publish().version == 0
    with pytest.raises(ResourceError, match=r"(?s)E508.*cannot be reached.*gnomon resume"):
        second.publish()


def test_a_learner_on_a_server_is_measured_in_its_own_dtype(monkeypatch):
    """By `gnomon mismatch`: its first line is that of the learner in this process; an error comes with its fix."""
    words = ["env=char_count", "rollout.max_tokens=8"]
    here = next(lines(config_of(words), lambda what: None))
    with serving(words, token="t") as server:
        monkeypatch.setenv(TOKEN, "t")
        config = config_of([*words, f"learner={server.url}"])
        assert next(lines(config, lambda what: None)) == here
        monkeypatch.setenv(TOKEN, "wrong")
        with pytest.raises(ResourceError, match="E508"):
            list(lines(config, lambda what: None))


@pytest.mark.parametrize("url", ["http://h:99999", "http://h:abc", "http://[::1", "http://"])
def test_what_is_no_address_is_refused_before_the_run(url):
    with pytest.raises(ConfigErrors, match=r"E048|E011|E012|E013"):
        config_of(["env=char_count", f"learner={url}"])


def test_a_run_is_not_resumed_with_what_cannot_be(tmp_path):
    """The settings of the command are checked as those of a recipe are."""
    train = ["train", "char_count", *COMMON, "budget.seconds=0.001", f"run={tmp_path / 'run'}"]
    assert command(*train).returncode in (0, 130)
    refused = command("resume", str(tmp_path / "run"), "learner=127.0.0.1:9000")
    assert refused.returncode == 2 and "error[" in refused.stderr and "Traceback" not in refused.stderr, refused


def test_an_own_penalty_with_a_full_divergence_travels(tmp_path):
    """The divergence is a term of the learner, and the row keeps its own penalty."""
    words = ["env=char_count", "objective=tba", "regularize.kl=0.1", "regularize.estimator=full"]
    assert named_objective(config_of(words)).penalty == ""
    assert named_objective(config_of(["env=char_count", "regularize.kl=0.1"])).penalty == "k3"


def test_an_objective_that_only_this_process_has_is_refused():
    with pytest.raises(ConfigErrors, match=r"(?s)E048.*by name"):
        config_of(["env=char_count", "learner=http://127.0.0.1:1", "objective=object:mine"])


# Messages.

VALUES = [
    None, True, 3, -0.0, float("inf"), "ä\x00", [1, [2.5]], (1, "a"), {"a": 1, 3: (None,)},
    Model.REFERENCE, Kind.ADAPTER, Named(name="grpo", options={"clip": 0.1}, penalty="k3", penalty_weight=0.5),
    {"a": Sum(1.5), "b": Mean(1 / 3, 7.0), "c": Max(2.0), "d": At(1.0, 2.0), "e": Quantile(array("d", [1.0]), 0.9)},
    made([1, 2], [3, 4, 5], rollout=1),
    Coefficients(kappa=torch.randn(3).double(), weight=torch.ones(3), clipped=torch.tensor([True, False, True])),
    WeightsRef(base="x", version=3, tensors={"w": torch.randn(2, 3).bfloat16()}, probe=(1, 2), probe_logp=(-0.5,)),
]  # fmt: skip


def same(one: object, other: object) -> bool:
    """Equal in type, bits and structure."""
    return dumps(one) == dumps(other) and type(one) is type(other)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_message_comes_back_as_it_was(value):
    assert same(loads(dumps(value)), value)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "int64", "bool"])
def test_tensors_keep_every_bit(dtype, shape):
    value = (torch.randn(shape) * 4).to(getattr(torch, dtype))
    found = loads(dumps(value.t() if value.dim() == 2 else value))
    wanted = value.t() if value.dim() == 2 else value
    assert found.dtype == wanted.dtype and found.shape == wanted.shape and torch.equal(found, wanted)


def test_what_is_no_message_is_refused_and_nothing_is_run():
    """Cut and changed bytes: a ValueError or another value, never another error."""
    with pytest.raises(TypeError, match="cannot be sent"):
        dumps(object())
    with pytest.raises(TypeError, match="cannot be sent"):
        dumps(Path("/etc/passwd"))
    rng, whole = random.Random(0), dumps(VALUES[-1])
    for _ in range(1000):
        changed = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
        for _ in range(rng.randrange(1, 4)):
            if changed:
                changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            loads(bytes(changed))
        except ValueError:
            continue


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "", "..", "."])
def test_a_file_of_another_machine_stays_in_its_folder(tmp_path, name):
    with pytest.raises(ValueError, match="not the name of a file"):
        write_files(tmp_path / "inner", {name: torch.zeros(1, dtype=torch.uint8)})
    assert not list(tmp_path.rglob("x"))


def test_what_client_and_server_share_is_what_decides_the_learner():
    """A setting of the learner that is forgotten here would let two learners differ silently."""
    plain = of_learner(config_of(["env=char_count"]))
    assert of_learner(config_of(["env=char_count", "rollout.group=5", "optim.lr=0.01", "eval.every=3"])) == plain
    for word in (
        "seed=1", "threads=2", "policy.dtype=bfloat16", "policy.lora.rank=1", "objective=grpo", "ranks=2",
        "policy.attention=flex", "objective.clip_low=0.3", "regularize.kl=0.1", "regularize.entropy=0.1",
        "optim.weight_decay=0.1", "optim.max_grad_norm=2", "optim.micro_batch=10", "critic.lr=0.01",
    ):  # fmt: skip
        words = ["env=char_count", *(["objective=grpo"] if word.startswith("objective.") else []), word]
        assert of_learner(config_of(words)) != plain, word


# A network that loses messages.


class Losing:
    """Of every call it loses the request, then the answer, then is silent; the fourth time the call succeeds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost, self._real = Counter[str](), ServedLearner._send
        self._next = itertools.cycle(["request", "answer", "silence", ""])
        self._silent: list[tuple[socket.socket, socket.socket]] = []
        monkeypatch.setattr(ServedLearner, "_send", lambda *call: self._sent(*call))
        monkeypatch.setattr(served, "BEAT", 0.3)
        monkeypatch.setattr(served, "PAUSE", 0.01)

    def _sent(self, client: ServedLearner, verb: str, body: bytes) -> HTTPConnection:
        if verb in ("begin", ALIVE) or not (how := next(self._next)):
            return self._real(client, verb, body)
        self.lost[how] += 1
        if how == "request":
            raise ConnectionResetError
        found = self._real(client, verb, body)
        if how == "answer":
            select.select([found.sock], [], [])
            found.close()
            raise ConnectionResetError
        self._silent.append(socket.socketpair())  # The request arrives; its answer never does, and nobody says so.
        found.sock.close()
        found.sock = self._silent[-1][0]
        return found


def test_messages_that_are_lost_change_no_byte(tmp_path, monkeypatch):
    """Each is sent again, and carried out once."""
    settings = {"steps": 2, "prompts": 2, "group": 4, "eval": {"tasks": 2, "samples": 1}, "save": {"every": 1}}
    settings |= {"quiet": True, "threads": 1}
    monkeypatch.setenv(TOKEN, "t")
    here = gnomon.train("char_count", run=tmp_path / "here", **settings)
    with serving(["env=char_count"], token="t") as server, here:
        network = Losing(monkeypatch)
        there = gnomon.train("char_count", run=tmp_path / "there", learner=server.url, **settings)
        assert here.fingerprint == there.fingerprint and there.complete
        there.close()
    assert network.lost["request"] == network.lost["answer"] == network.lost["silence"] > 10


def test_a_message_that_comes_late_is_not_carried_out(monkeypatch):
    """The network may keep a request while the client has sent it again and gone on."""
    monkeypatch.setenv(TOKEN, "t")
    with serving(["env=char_count"], token="t") as server:
        client = make_served(config_of(["env=char_count", f"learner={server.url}"]))
        client.publish()
        client.publish()
        client._number = 0
        with pytest.raises(ResourceError, match=r"E508.*call 1 of optim_step.*was sent before"):
            client.optim_step(1e-3)


def test_a_server_that_is_silent_for_long_is_given_up(monkeypatch):
    """It is stopped, or the network drops everything, also the question whether it is alive."""
    monkeypatch.setenv(TOKEN, "t")
    monkeypatch.setattr(served, "PATIENCE", 0.5)
    with serving(["env=char_count"], token="t") as server:
        client = make_served(config_of(["env=char_count", f"learner={server.url}"]))
        monkeypatch.setattr(served, "BEAT", 0.1)
        monkeypatch.setattr(served, "PAUSE", 0.01)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            client.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(ResourceError, match=r"(?s)E508.*cannot be reached.*gnomon resume"):
                client.publish()
