"""An environment in another trainer's hands pays what it pays at home."""

import dataclasses
import http.client
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from gnomon.envs import Arithmetic, Countdown, GuessNumber, KuhnPoker
from gnomon.envs.check import check_env
from gnomon.envs.episodes import lines, play
from gnomon.errors import ConfigError, VerifierError
from gnomon.integrations.environments import Remote
from gnomon.integrations.exports import Server, trl_reward, trl_rows, verl_rows, verl_score
from gnomon.integrations.rewards import VerlScore
from gnomon.keys import Key
from gnomon.types import Status

KEY = Key(5)


def hundred(env):
    """A hundred rollouts of ten tasks: right, wrong, hedged, empty, and without a slot."""
    tasks = env.tasks("train")
    golds = [env.solution(tasks[index]) for index in range(10)]
    said = ["<answer>{0}</answer>", "<answer>{1}</answer>", "<answer>{0} or {1}</answer>", "", "{0}", "<answer>",
            "Well. <answer>{0}</answer>", "<answer>{0}</answer><answer>{1}</answer>", "<answer> {0} </answer>",
            "é"]  # fmt: skip
    return [(i, form.format(golds[i], golds[i - 1])) for i in range(10) for form in said]


def test_the_reward_function_of_trl_pays_the_same_on_a_hundred_rollouts():
    env = Countdown(numbers=(3,))
    rollouts, tasks, reward = hundred(env), env.tasks("train"), trl_reward(env)
    paid = reward(
        prompts=[None] * 100,
        completions=[[{"role": "assistant", "content": text}] for _, text in rollouts],
        completion_ids=[[0]] * 100,
        split=["train"] * 100,
        index=[index for index, _ in rollouts],
    )
    home = [env.verify(tasks[index], text).reward for index, text in rollouts]
    assert paid == home and len({*home}) >= 3
    assert trl_rows(env, "train", 2)[1]["prompt"][-1]["content"] == tasks[1].messages[-1].content


def test_trl_itself_pays_the_same(tmp_path):
    """The trainer of the package computes its rewards with our function; nothing is trained."""
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    import torch

    env = Arithmetic()
    rollouts = hundred(env)
    rows = trl_rows(env, "train", 10)
    inputs = [rows[index] for index, _ in rollouts]
    trainer = trl.GRPOTrainer.__new__(trl.GRPOTrainer)
    ready = SimpleNamespace
    function = trl_reward(env)
    trainer.accelerator = ready(device=torch.device("cpu"), process_index=0, num_processes=1, is_main_process=True)
    trainer.reward_funcs, trainer.reward_processing_classes = [function], [None]
    trainer.reward_func_names, trainer.state, trainer.args = (
        [function.__name__],
        ready(global_step=0),
        ready(report_to=[]),
    )
    trainer.async_reward_funcs, trainer.environments, trainer._current_train_step_time = [], None, 0.0
    trainer._has_async_reward_funcs = False
    trainer._pending_extra_logs, trainer._pending_metrics = {}, {}
    completions = [[{"role": "assistant", "content": text}] for _, text in rollouts]
    paid = trainer._calculate_rewards(inputs, [row["prompt"] for row in inputs], completions, [[0]] * 100)
    home = [env.verify(env.tasks("train")[index], text).reward for index, text in rollouts]
    assert paid[:, 0].tolist() == pytest.approx(home, abs=1e-7)  # the package keeps rewards in float32
    assert datasets.Dataset.from_list(rows)[3]["index"] == 3


def test_compute_score_pays_the_same_on_a_hundred_rollouts():
    """As verl calls it, and read back by our own reader of such functions."""
    env = Countdown(numbers=(3,))
    rows, tasks, score = verl_rows(env, "train", 10), env.tasks("train"), verl_score(env)
    reader = VerlScore(function=score, top=env.reward_range[1])
    for index, text in hundred(env):
        row, home = rows[index], env.verify(tasks[index], text)
        given = score(
            data_source=row["data_source"],
            solution_str=text,
            ground_truth=row["reward_model"]["ground_truth"],
            extra_info=row["extra_info"],
        )
        assert (given["score"], given["acc"]) == (home.reward, home.correct)
        task = dataclasses.replace(tasks[index], info={"extra_info": row["extra_info"]})
        assert reader.verify(task, text).reward == home.reward
    assert "answer" not in json.dumps(rows).replace("<answer>", "").replace("</answer>", "").split("prompt")[0]


@dataclass(frozen=True, kw_only=True)
class Broken(Arithmetic):
    def check(self, task, answer):
        raise RuntimeError("the judge broke")


def test_a_judge_that_breaks_is_no_zero_elsewhere_either():
    reward = trl_reward(Broken())
    with pytest.raises(VerifierError, match="E178"):
        reward(prompts=[None], completions=["<answer>1</answer>"], split=["train"], index=[0])


def test_a_reward_function_has_one_turn():
    for make in (trl_reward, verl_score):
        with pytest.raises(ConfigError, match="E177"):
            make(GuessNumber())


@pytest.fixture
def served(monkeypatch):
    started = []

    def serve(env):
        server = Server(env).start()
        started.append(server)
        monkeypatch.setenv("GNOMON_TOKEN", server.token)
        return server, Remote(url=server.url)

    yield serve
    for server in started:
        server.close()


@pytest.mark.parametrize(
    "env", [Countdown(numbers=(3,)), GuessNumber(), KuhnPoker()], ids=lambda env: type(env).__name__
)
def test_a_served_environment_plays_as_it_does_at_home(served, env):
    _, remote = served(env)
    split, there = env.tasks("test"), remote.tasks("test")
    assert (remote.reward_range, remote.max_turns, len(there)) == (env.reward_range, env.max_turns, len(split))
    tasks = split[0], split[1]
    for index in range(2):
        assert (there[index].id, there[index].messages) == (tasks[index].id, tasks[index].messages)
        assert there[index].answer is None
        for say in lines(env, tasks, index):
            home = play(env, tasks[index], say, KEY)
            assert play(remote, there[index], lambda _, turn, home=home: home.replies[turn], KEY) == home


def test_a_served_environment_passes_the_conformance_suite(served):
    report = check_env(served(Arithmetic())[1], tasks=8)
    assert report.passed, str(report)


def test_the_answer_of_a_task_does_not_leave_the_server(served):
    server, _ = served(Arithmetic())
    task = Arithmetic().tasks("train")[0]
    assert set(server.answer("/v1/task", {"split": "train", "index": 0})) == {"id", "messages"}
    assert task.answer is not None


def asked(server, path="/v1/env", body=b"{}", **changed):
    headers = {
        "Host": f"127.0.0.1:{server.port}",
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/json",
    }
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest("POST", path, skip_host=True)
    for name, value in ({"Content-Length": str(len(body))} | headers).items():
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_what_is_not_asked_rightly_is_refused(served):
    server, _ = served(Arithmetic())
    step = {"split": "train", "index": 0, "key": {"seed": 0, "path": []}, "replies": []}
    assert asked(server)[0] == 200
    assert asked(server, Authorization="Bearer guessed")[0] == 401
    assert asked(server, Authorization="")[0] == 401
    assert asked(server, Host="evil.example")[0] == 421
    assert asked(server, Content_Type="text/plain")[0] == 415
    assert asked(server, Content_Length="99999999")[0] == 413
    assert asked(server, Transfer_Encoding="chunked")[0] == 411
    assert asked(server, body=b"[" * 100_000)[0] == 400
    assert asked(server, body=b"[]")[0] == 400
    assert asked(server, path="/v1/nothing")[0] == 404
    assert asked(server, path="/v1/task", body=json.dumps({"split": "valid", "index": 0}).encode())[0] == 400
    assert asked(server, path="/v1/task", body=json.dumps({"split": "train", "index": -1}).encode())[0] == 404
    assert asked(server, path="/v1/step", body=json.dumps(step | {"replies": ["a", "b"]}).encode())[0] == 400
    assert asked(server, path="/v1/step", body=json.dumps(step | {"key": 3}).encode())[0] == 400
    assert asked(server, path="/v1/step", body=json.dumps(step).encode())[0] == 200


def test_only_this_machine_is_listened_to(served):
    server, _ = served(Arithmetic())
    assert server._http.server_address[0] == "127.0.0.1"


def test_a_judge_that_breaks_on_the_server_raises_at_the_client(served):
    _, remote = served(Broken())
    episode = remote.start(remote.tasks("train")[0], KEY)
    with pytest.raises(VerifierError, match="E179"):
        episode.step("<answer>1</answer>")


@dataclass(frozen=True, kw_only=True)
class Slow(Arithmetic):
    def check(self, task, answer):
        while answer == "1":
            pass
        return False


def test_a_reply_that_takes_too_long_is_ended_on_the_server(monkeypatch):
    with Server(Slow(), seconds=0.3) as server:
        monkeypatch.setenv("GNOMON_TOKEN", server.token)
        remote = Remote(url=server.url)
        verdict = remote.start(remote.tasks("train")[0], KEY).step("<answer>1</answer>").verdict
    assert verdict.status is Status.EXCEEDED


def test_a_server_that_is_not_there_is_named(monkeypatch):
    with pytest.raises(VerifierError, match=r"E179.*no answer"):
        Remote(url="http://127.0.0.1:9").reward_range  # noqa: B018


def test_the_command_serves_until_it_is_ended():
    command = [sys.executable, "-m", "gnomon", "serve-env", "arithmetic", "--port", "0"]
    env = {name: value for name, value in os.environ.items() if name != "GNOMON_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            url = process.stdout.readline().split()[3].rstrip(",;")
            token = process.stdout.readline().strip().partition("=")[2]
            host = url.removeprefix("http://")
            connection = http.client.HTTPConnection(host, timeout=20)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/env", "{}", headers)
            assert json.loads(connection.getresponse().read())["name"] == "Arithmetic"
        finally:
            process.terminate()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/", b"POST /v1/env HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", "whole"])
def test_a_connection_that_is_dropped_is_passed_over_without_a_word(sent, capfd, monkeypatch):
    import socket
    import struct
    import time

    with Server(Countdown()) as server:
        if sent == "whole":
            body = b"{}"
            head = f"POST /v1/env HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
            sent = (head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n").encode() + body
            sent *= 200
        for _ in range(3):
            talk = socket.create_connection(("127.0.0.1", server.port))
            talk.sendall(sent)
            # Closed with a reset, so that what the server still reads or writes fails.
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            talk.close()
        time.sleep(0.5)
        monkeypatch.setenv("GNOMON_TOKEN", server.token)
        assert Remote(url=server.url).max_turns == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_server_that_follows_another_at_its_address_is_asked_again(monkeypatch):
    with Server(Countdown()) as first:
        monkeypatch.setenv("GNOMON_TOKEN", first.token)
        port, old = first.port, Remote(url=first.url).tasks("train")[0]
        assert Remote(url=first.url).max_turns == 1
    with Server(GuessNumber(), port=port) as second:
        monkeypatch.setenv("GNOMON_TOKEN", second.token)
        assert Remote(url=second.url).max_turns > 1 and Remote(url=second.url).tasks("train")[0] != old
