"""Clients of OpenEnv and of the Open Reward Standard, against small servers written to the published protocols."""

import json
import random
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from websockets.sync.connection import Connection
from websockets.sync.server import serve

from gnomon.envs.check import check_env
from gnomon.envs.episodes import play
from gnomon.errors import VerifierError
from gnomon.integrations.environments import OpenEnv, Ors
from gnomon.keys import Key

KEY = Key(0)


class OpenEnvServer:
    """A number is to be guessed, one session for each connection; certain guesses make it misbehave."""

    def __init__(self):
        self.server = serve(self.play, "127.0.0.1", 0, ping_interval=None)
        self.url = "http://{}:{}".format(*self.server.socket.getsockname())
        self.open, self.opened, self.honest = 0, 0, True
        Thread(target=self.server.serve_forever, daemon=True).start()

    def play(self, connection):
        self.open, self.opened = self.open + 1, self.opened + 1
        session = {"secret": 0, "turns": 0}
        try:
            for text in connection:
                asked = json.loads(text)
                if asked["type"] == "close":
                    return
                told = json.dumps(self.answer(session, asked))
                connection.send([told[:9], told[9:]])  # In two fragments, as a server may.
                connection.ping(str(time.monotonic_ns()))
        except OSError:
            connection.socket.close()
        finally:
            self.open -= 1

    def answer(self, session, asked):
        if asked["type"] == "reset":
            session["secret"] = random.Random(asked["data"]["seed"] if self.honest else None).randint(1, 9)
            text = "Guess from 1 to 9." if self.honest else f"Guess, {random.Random().random()}."
            return {"type": "observation", "data": {"observation": {"text": text}, "reward": None, "done": False}}
        guess = asked["data"]["message"]
        if guess == "crash":
            return {"type": "error", "data": {"message": "it broke", "code": "EXECUTION_ERROR"}}
        if guess == "sleep":
            time.sleep(1)
        if guess == "leave":
            raise OSError
        reward = {"pay nan": float("nan"), "pay 5": 5.0, "pay text": "1"}.get(
            guess, float(guess == str(session["secret"]))
        )
        session["turns"] += 1
        done = reward != 0 or session["turns"] == 9
        text = "over" if done else "no"
        return {"type": "observation", "data": {"observation": {"text": text}, "reward": reward, "done": done}}


@pytest.fixture
def openenv():
    server = OpenEnvServer()
    yield server
    server.server.shutdown()


def count(env, task):
    """The verdict on a player who tries every number."""
    return play(env, task, lambda episode, turn: str(turn + 1)).verdicts[0]


def test_an_openenv_server_is_an_environment(openenv):
    env = OpenEnv(url=openenv.url, turns=9)
    tasks = [env.tasks("train")[index] for index in range(5)]
    first = [count(env, task) for task in tasks]
    assert all(verdict.correct and verdict.reward == 1 for verdict in first)
    assert first == [count(env, task) for task in tasks] and len({task.id for task in tasks}) == 5


def test_a_session_is_closed_with_its_episode(openenv):
    env = OpenEnv(url=openenv.url, turns=9)
    count(env, env.tasks("train")[0])
    due = time.monotonic() + 10
    while openenv.open and time.monotonic() < due:
        time.sleep(0.01)
    assert openenv.opened == 2 and openenv.open == 0


def test_an_open_session_draws_nothing_from_this_process(openenv, monkeypatch):
    pings = []
    monkeypatch.setattr(Connection, "keepalive", lambda connection: pings.append(connection))
    env = OpenEnv(url=openenv.url, turns=9)
    state = random.getstate()
    env.start(env.tasks("train")[0], KEY).step("5")
    assert not pings and random.getstate() == state


@pytest.mark.parametrize(
    ("reply", "code"),
    [("pay nan", "E174"), ("pay 5", "E174"), ("pay text", "E174"), ("crash", "E179"), ("leave", "E179")],
)
def test_what_is_no_reward_and_no_answer_raises(openenv, reply, code):
    env = OpenEnv(url=openenv.url, turns=9)
    episode = env.start(env.tasks("train")[0], KEY)
    with pytest.raises(VerifierError, match=code):
        episode.step(reply)


def test_a_server_that_drops_its_seed_is_found_out(openenv):
    openenv.honest = False
    env = OpenEnv(url=openenv.url)
    with pytest.raises(VerifierError, match="E175"):
        env.start(env.tasks("train")[0], KEY)


def test_what_is_no_websocket_is_refused(ors):
    with pytest.raises(VerifierError, match="E179"):
        OpenEnv(url=ors.url).tasks("train")[0]


def test_a_server_that_says_nothing_is_given_up(openenv):
    env = OpenEnv(url=openenv.url, turns=9, seconds=0.3)
    episode = env.start(env.tasks("train")[0], KEY)
    with pytest.raises(VerifierError, match="E179"):
        episode.step("sleep")


class OrsHandler(BaseHTTPRequestHandler):
    """Doubling sums, two tries each. State hangs on the server: sessions, calls by id, and what is to go wrong."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/list_environments":
            return self.say(["sums"])
        if self.path == "/sums/prompt":
            number = self.session()["index"]
            return self.say([{"type": "text", "text": f"What is {number} + {number}?"}])
        if self.path == "/sums/task_tools":
            submit = {"name": "submit", "description": "", "input_schema": {"required": ["answer"]}}
            return self.say({"tools": [submit]})
        return self.say({"detail": "no such thing"}, 404)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sessions = self.server.sessions
        match self.path:
            case "/sums/num_tasks":
                return self.say({"num_tasks": 12})
            case "/sums/task":
                return self.say({"task": {"number": asked["index"], "split": asked["split"]}})
            case "/create":
                if self.name in sessions:
                    return self.say({"detail": "Session already exists"}, 400)
                sessions[self.name] = {**asked, "tries": 0}
                return self.say({"sid": self.name})
            case "/ping":
                return self.say({"status": "ok"}, 200 if self.name in sessions else 404)
            case "/delete":
                sessions.pop(self.name, None)
                return self.say({"sid": self.name})
            case "/sums/call":
                return self.call(asked)
        return self.say({"detail": "no such thing"}, 404)

    @property
    def name(self):
        return self.headers["X-Session-ID"]

    def session(self):
        return self.server.sessions[self.name]

    def call(self, asked):
        """Server-sent events: the call's id, then its output in pieces. A known id is not called again."""
        server, task = self.server, asked.get("task_id")
        if task is None:
            task = f"call-{len(server.calls)}"
            server.calls[task] = json.dumps(self.made(asked["input"]["answer"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if server.drop == "early":
            return
        self.event("task_id", task)
        if server.drop == "once":
            server.drop = ""
            return
        text = server.calls[task]
        self.wfile.write(b": a sign of life\r\n\r\n")
        self.event("chunk", text[:10])
        self.event("end", text[10:])

    def made(self, answer):
        session = self.session()
        session["tries"] += 1
        if answer == "crash":
            return {"ok": False, "error": "it broke"}
        right = answer == str(2 * session["index"])
        reward = {"pay inf": float("inf"), "pay 2": 2.0}.get(answer, float(right))
        output = {
            "blocks": [{"type": "text", "text": "no"}],
            "reward": reward,
            "finished": bool(reward) or session["tries"] == 2,
        }
        return {"ok": True, "output": output}

    def event(self, name, data):
        self.wfile.write(f"event: {name}\r\ndata: {data}\r\n\r\n".encode())

    def say(self, answer, status=200):
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


@pytest.fixture
def ors():
    server = ThreadingHTTPServer(("127.0.0.1", 0), OrsHandler)
    server.daemon_threads = True
    server.sessions, server.calls, server.drop = {}, {}, ""
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_ors_server_is_an_environment(ors):
    env = Ors(url=ors.url)
    tasks = env.tasks("train")
    assert len(tasks) == 12 and tasks[3].messages[0].content == "What is 3 + 3?"
    assert play(env, tasks[3], lambda episode, turn: "56"[turn]).verdicts[0].correct
    assert not play(env, tasks[3], lambda episode, turn: "7").verdicts[0].correct
    assert not ors.sessions, "every session was given back"
    report = check_env(env, tasks=4)
    assert report.passed, str(report)


def test_a_call_whose_answer_breaks_off_is_not_made_twice(ors):
    env = Ors(url=ors.url)
    episode = env.start(env.tasks("train")[3], KEY)
    ors.drop = "once"
    step = episode.step("5")
    assert not step.done and len(ors.calls) == 1
    assert next(iter(ors.sessions.values()))["tries"] == 1
    assert episode.step("6").verdict.correct


def test_a_call_that_broke_off_without_a_name_raises(ors):
    env = Ors(url=ors.url)
    episode = env.start(env.tasks("train")[3], KEY)
    ors.drop = "early"
    with pytest.raises(VerifierError, match="E179"):
        episode.step("5")
    assert len(ors.calls) == 1


@pytest.mark.parametrize(("reply", "code"), [("pay inf", "E174"), ("pay 2", "E174"), ("crash", "E179")])
def test_what_is_no_reward_raises(ors, reply, code):
    env = Ors(url=ors.url)
    episode = env.start(env.tasks("train")[3], KEY)
    with pytest.raises(VerifierError, match=code):
        episode.step(reply)


def test_a_lease_is_kept_while_the_episode_lasts(ors, monkeypatch):
    from gnomon.integrations.environments import ors as module

    pings = []
    monkeypatch.setattr(module, "PING", 0.02)
    plain = Ors.post
    monkeypatch.setattr(
        Ors, "post", lambda self, path, *rest, **more: (pings.append(path), plain(self, path, *rest, **more))[1]
    )
    env = Ors(url=ors.url)
    episode = env.start(env.tasks("train")[3], KEY)
    while pings.count("/ping") < 3:
        pass
    episode.close()
    assert not ors.sessions
