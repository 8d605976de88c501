"""Images of programs: in three dialects the tokens of an environment's image, kept by hash; all others are refused."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import zlib
from base64 import b64encode
from http.client import HTTPConnection
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from endpoint.programs import renderer_of
from endpoint.serving import Served, serving
from endpoint.test_dialects import PATHS, body_of, posted, said, talk
from endpoint.test_programs import recorder_of
from gnomon.agents.recorder import Bounds
from gnomon.envs.agent import launch_of
from gnomon.images import SHELF, Image
from gnomon.models.tokenizer import Tokenizer
from gnomon.plans.programs import program_of
from gnomon.rendering import Renderer, Transcript, choose
from gnomon.rollout.by_hand import run
from gnomon.rollout.programs import Programs
from gnomon.run.policy_server import policy_server
from gnomon.types import Message, Task
from ground.test_images import chunk, declared, drawn
from models.seeing import seeing

pytestmark = pytest.mark.needs("PIL")
RED, BLUE = Image.of(drawn("red", 32)), Image.of(drawn("blue", 32))
OWN = (Image.of(drawn("green", 32)), Image.of(drawn("blue", 24)))
"""Images that no other test sends."""
CALLED = '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>'


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return choose(Tokenizer(seeing(tmp_path_factory.mktemp("qwen"), "qwen3_vl")), turns=9)


def inline(data: bytes) -> str:
    return f"data:image/png;base64,{b64encode(data).decode()}"


def image_part(path: str, data: bytes) -> dict[str, Any]:
    if path == PATHS[0]:
        return {"type": "image_url", "image_url": {"url": inline(data), "detail": "low"}}
    if path == PATHS[1]:
        return {"type": "input_image", "image_url": inline(data), "detail": "auto"}
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(data).decode()}
    return {"type": "image", "source": source}


def text_part(path: str, text: str) -> dict[str, Any]:
    return {"type": "input_text" if path == PATHS[1] else "text", "text": text}


def asked(path: str, *images: bytes, text: str = "q", **more: Any) -> dict[str, Any]:
    """The request of `body_of`, with images."""
    content = [*(image_part(path, data) for data in images), text_part(path, text)]
    field = "input" if path == PATHS[1] else "messages"
    body = body_of(path, **more)
    return {**body, field: [*body[field][:-1], {"role": "user", "content": content}]}


def followed(path: str, body: dict[str, Any], reply: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """The next request: the reply, and further messages."""
    if path == PATHS[1]:
        return {**body, "input": [*body["input"], *reply["output"], *more]}
    own = reply["choices"][0]["message"] if path == PATHS[0] else {"role": "assistant", "content": reply["content"]}
    return {**body, "messages": [*body["messages"], own, *more]}


def result(path: str, call: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """The result of a call."""
    if path == PATHS[0]:
        return {"role": "tool", "tool_call_id": call, "content": [*parts]}
    if path == PATHS[1]:
        return {"type": "function_call_output", "call_id": call, "output": [*parts]}
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": [*parts]}]}


def images_of(served: Served) -> list[list[Image]]:
    """The images in the messages of every turn."""
    return [[image for message in turn.messages for image in message.images] for turn in served.turns()]


@pytest.mark.parametrize("path", PATHS)
def test_an_image_is_the_tokens_that_an_environment_s_image_is(qwen: Renderer, path: str) -> None:
    with serving(qwen) as served:
        posted(served, path, asked(path, RED.data, BLUE.data, tools=False))
        (turn,) = served.turns()
        own = [Message(role="system", content="s"), Message(role="user", content="q", images=(RED, BLUE))]
        assert turn.messages == tuple(own) and turn.prompt_ids == Transcript.begin(qwen, own).token_ids
        assert list(dict.fromkeys(token for token in turn.prompt_ids if token < 0)) == [RED.token, BLUE.token]
        assert SHELF.get(BLUE.token).data == BLUE.data


@pytest.mark.parametrize("path", PATHS)
def test_later_images_go_on_from_the_sampled_tokens(qwen: Renderer, path: str) -> None:
    """One in a tool's result, one in a message of the user, while earlier ones are sent again."""
    with serving(qwen, lambda prompt, rng: "fox" if "here" in prompt else CALLED) as served:
        body = asked(path, RED.data)
        reply = posted(served, path, body)
        ((call, _, _),) = said(path, reply)[2]
        body = followed(path, body, reply, result(path, call, text_part(path, "here"), image_part(path, BLUE.data)))
        reply = posted(served, path, body)
        again = {"role": "user", "content": [text_part(path, "again"), image_part(path, RED.data)]}
        posted(served, path, followed(path, body, reply, again))
        turns = served.turns()
        assert [turn.fork for turn in turns] == [0, 0, 0] and images_of(served) == [[RED], [BLUE], [RED]]
        assert [message.role for message in turns[1].messages] == ["tool"]
        for before, after in pairwise(turns):
            whole = before.prompt_ids + before.completion.token_ids
            assert after.prompt_ids[: len(whole)] == whole and min(after.prompt_ids[len(whole) :]) < 0


def test_another_image_is_another_conversation(qwen: Renderer) -> None:
    with serving(qwen, talk) as served:
        body = asked(PATHS[0], RED.data, tools=False)
        reply = posted(served, PATHS[0], body)
        other = asked(PATHS[0], BLUE.data, tools=False)
        posted(served, PATHS[0], followed(PATHS[0], other, reply, {"role": "user", "content": "again"}))
        assert [turn.fork for turn in served.turns()] == [0, 1]


def test_images_count_as_tokens(qwen: Renderer) -> None:
    with serving(qwen) as served:
        counted = posted(served, "/v1/messages/count_tokens", asked(PATHS[2], RED.data))
        posted(served, PATHS[2], asked(PATHS[2], RED.data))
        assert counted == {"input_tokens": len(served.turns()[0].prompt_ids)}


BAD: dict[str, tuple[bytes, str]] = {
    "cut off": (drawn()[:-40], "invalid_image"),
    "no image": (b"hello", "invalid_image"),
    "too many pixels": (declared(8000, 8000), "invalid_image"),
    "a bomb": (declared(8, 8, chunk(b"zTXt", b"c\0\0" + zlib.compress(bytes(2**24)))), "invalid_image"),
    "animated": (declared(8, 8, chunk(b"acTL", bytes(8))), "invalid_image"),
    "a GIF": (b"GIF89a" + bytes(50), "unsupported_image"),
    "a WebP": (b"RIFF....WEBP", "unsupported_image"),
}


def refused(served: Served, path: str, body: Any, code: str, status: int = 400) -> str:
    """The message of a refusal, which clients do not retry."""
    found, headers, data = served.post(path, body)
    error = json.loads(data)["error"]
    assert found == status and headers["x-should-retry"] == "false" and error.get("code", code) == code, data
    assert served.recorder.calls.refused == {code: 1} and not served.policy.requests
    return str(error["message"])


@pytest.mark.every
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_used_is_refused(qwen: Renderer, path: str, name: str) -> None:
    with serving(qwen) as served:
        refused(served, path, asked(path, BAD[name][0]), BAD[name][1])


@pytest.mark.every
@pytest.mark.parametrize("field", ["image_url", "source"])
@pytest.mark.parametrize("address", ["http://127.0.0.1:{}/a.png", "file:///etc/passwd", "a.png", "data:,a", None])
def test_nothing_is_fetched(qwen: Renderer, field: str, address: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host, serving(qwen) as served:
        host.settimeout(0.2)
        url = address and address.format(host.getsockname()[1])
        part = {"type": "image_url", "image_url": {"url": url}} if url else {"type": "input_image", "file_id": "f"}
        part = {"type": "image", "source": {"type": "url", "url": url}} if field == "source" else part
        body = {"messages": [{"role": "user", "content": [part]}], "max_tokens": 9}
        assert "fetched" in refused(served, PATHS[2 if field == "source" else 0], body, "unsupported_image")
        with pytest.raises(TimeoutError):
            host.accept()


def test_base64_may_have_line_breaks_and_nothing_else(qwen: Renderer) -> None:
    with serving(qwen) as served:
        body = json.dumps(asked(PATHS[0], RED.data))
        begin = body.index("base64,") + 30
        posted(served, PATHS[0], f"{body[:begin]}\\n{body[begin:]}".encode())
        assert images_of(served) == [[RED]]
    with serving(qwen) as served:
        assert "base64" in refused(served, PATHS[0], f"{body[:begin]}!{body[begin:]}".encode(), "invalid_image")


def test_only_users_and_tools_send_images(qwen: Renderer) -> None:
    with serving(qwen) as served:
        body = asked(PATHS[0], RED.data)
        body["messages"].insert(0, {**body["messages"][-1], "role": "system"})
        assert "image_url" in refused(served, PATHS[0], body, "unsupported_content")


def test_a_model_and_a_run_that_take_no_images_say_so(qwen: Renderer, tmp_path: Path) -> None:
    with serving(renderer_of("qwen3", tmp_path)) as served:
        assert "cannot see" in refused(served, PATHS[0], asked(PATHS[0], RED.data), "unsupported_image")
    with serving(qwen, bounds=Bounds(calls=1, blind="the run needs engine=embedded")) as served:
        assert "engine=embedded" in refused(served, PATHS[0], asked(PATHS[0], RED.data), "unsupported_image")


def test_an_image_in_a_result_needs_a_template_that_is_proven_to_take_it(tmp_path: Path) -> None:
    """This one writes the images of results again, after the last message."""
    folder = seeing(tmp_path, "qwen3_vl")
    template, begin = folder / "chat_template.jinja", "{% if add_generation_prompt %}"
    again = "{% for m in messages if m.role == 'tool' and m.content is not string %}<|vision_end|>{% endfor %}"
    template.write_text(template.read_text().replace(begin, again + begin))
    renderer = choose(Tokenizer(folder), turns=9)
    with serving(renderer, lambda prompt, rng: "fox" if "here" in prompt else CALLED) as served:
        body = asked(PATHS[0], RED.data)
        reply = posted(served, PATHS[0], body)
        ((call, _, _),) = said(PATHS[0], reply)[2]
        texts = followed(PATHS[0], body, reply, result(PATHS[0], call, text_part(PATHS[0], "here")))
        posted(served, PATHS[0], texts)
        parts = (text_part(PATHS[0], "here"), image_part(PATHS[0], BLUE.data))
        status, _, data = served.post(PATHS[0], followed(PATHS[0], body, reply, result(PATHS[0], call, *parts)))
        assert status == 400 and json.loads(data)["error"]["code"] == "unsupported_image" and b"rewrites" in data
        assert [turn.fork for turn in served.turns()] == [0, 0]


def test_an_image_that_cannot_be_kept_ends_the_run(qwen: Renderer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with SHELF.keep_in(tmp_path / "file/images"), serving(qwen) as served:
        assert "the run stops" in refused(served, PATHS[0], asked(PATHS[0], OWN[0].data), "rollout_over", 403)
        assert isinstance(served.recorder.error, OSError)


def test_a_refusal_names_no_address_of_an_object(qwen: Renderer) -> None:
    broken = RED.data[:29] + b"\0\0\0\0" + RED.data[33:]  # The checksum of the header.
    with serving(qwen) as served:
        why = refused(served, PATHS[0], asked(PATHS[0], broken), "invalid_image")
    assert why.startswith("an image cannot be used: it is damaged: ") and " at 0x" not in why


def test_large_requests_are_refused(qwen: Renderer) -> None:
    """All pixels of a request, its text, and all bytes of a rollout have limits."""
    with serving(qwen) as served:
        body = asked(PATHS[0], *(declared(4096, 4096, chunk(b"tEXt", bytes([i]))) for i in range(5)))
        assert "pixels" in refused(served, PATHS[0], body, "request_too_large", 413)
    with serving(qwen, longest=4000) as served:
        posted(served, PATHS[0], asked(PATHS[0], padded(9000, 0)))
    with serving(qwen, longest=4000) as served:
        assert "text" in refused(served, PATHS[0], asked(PATHS[0], text="q" * 4000), "request_too_large", 413)
    with serving(qwen, largest=2**24) as served:
        sent = [served.post(PATHS[0], asked(PATHS[0], padded(2**23, at), tools=False))[0] for at in range(9)]
        assert sent == [200] * 7 + [413, 413] and served.recorder.calls.refused == {"limit_images": 2}


def padded(size: int, at: int) -> bytes:
    """An image of many bytes. Args: at: makes it different from others."""
    head = drawn()
    return head[:33] + chunk(b"prIv", bytes([at]) * size) + head[33:]


def test_images_are_decoded_beside_the_event_loop(qwen: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs are served meanwhile."""
    threads, decode = list[str](), Image.pixels

    def pixels(image: Image) -> Any:
        threads.append(threading.current_thread().name)
        return decode(image)

    monkeypatch.setattr(Image, "pixels", pixels)
    with serving(qwen) as served:
        posted(served, PATHS[0], asked(PATHS[0], padded(100, 77)))
    assert [name.partition("_")[0] for name in threads] == ["asyncio"]  # A thread of `asyncio.to_thread`.


@pytest.mark.needs("openai")
def test_the_client_of_openai_sends_images(qwen: Renderer) -> None:
    import openai

    with serving(qwen) as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.key)
        messages: list[Any] = asked(PATHS[0], RED.data, tools=False)["messages"]
        said = client.chat.completions.create(model="m", messages=messages).choices[0].message
        again = {"role": "user", "content": [image_part(PATHS[0], BLUE.data)]}
        client.chat.completions.create(model="m", messages=[*messages, said.to_dict(), again])  # type: ignore[list-item]
        client.responses.create(model="m", **asked(PATHS[1], RED.data, tools=False))
        assert [turn.fork for turn in served.turns()] == [0, 0, 1] and images_of(served) == [[RED], [BLUE], [RED]]
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="m", **asked(PATHS[1], b"GIF89a", tools=False))
        assert refused.value.code == "unsupported_image" and served.recorder.calls.refused == {"unsupported_image": 1}


@pytest.mark.needs("anthropic")
def test_the_client_of_anthropic_sends_images_in_tool_results(qwen: Renderer) -> None:
    import anthropic

    with serving(qwen, lambda prompt, rng: "fox" if "here" in prompt else CALLED) as served:
        client = anthropic.Anthropic(base_url=served.url, api_key=served.key)
        body = asked(PATHS[2], RED.data)
        with client.messages.stream(model="m", **body) as events:
            reply = events.get_final_message()
        here = result(PATHS[2], reply.content[-1].id, text_part(PATHS[2], "here"), image_part(PATHS[2], BLUE.data))
        own = {"role": "assistant", "content": [block.to_dict() for block in reply.content]}
        more = {**body, "messages": [*body["messages"], own, here]}
        del more["max_tokens"]
        counted = client.messages.count_tokens(model="m", **more).input_tokens
        client.messages.create(model="m", max_tokens=9, **more)
        turns = served.turns()
        assert images_of(served) == [[RED], [BLUE]] and counted == len(turns[1].prompt_ids)
        with pytest.raises(anthropic.BadRequestError, match="damaged"):
            client.messages.create(model="m", **asked(PATHS[2], RED.data[:-40]))


def question(*images: Image) -> Task:
    return Task(id="q", messages=(Message(role="user", content="q", images=images),), answer=None)


@pytest.mark.needs("bwrap")
def test_a_program_finds_the_images_of_its_task_and_the_shell_sends_them(qwen: Renderer) -> None:
    jpeg = Image.of(photograph())
    recorder = recorder_of(qwen)
    end = asyncio.run(Programs().play(launch_of("", question(RED, BLUE, jpeg)), recorder, "k"))
    assert end.files == {"images/0.png": RED.data, "images/1.png": BLUE.data, "images/2.jpg": jpeg.data}, end
    ((message,),) = [turn.messages for turn in recorder.turns()]
    assert message.images == (RED, BLUE, jpeg) and message.content.startswith("q ")


def photograph() -> bytes:
    from PIL import Image as Pillow

    file = BytesIO()
    Pillow.new("RGB", (32, 32), "green").save(file, "JPEG")
    return file.getvalue()


@pytest.mark.needs("bwrap")
def test_a_person_sees_the_images_of_a_program_as_files() -> None:
    written = list[str]()

    def read(prompt: str) -> str:
        files = [Path(line[7:-1]) for line in written if line.startswith("[image ")]
        assert [file.read_bytes() for file in files] == [RED.data, BLUE.data]
        return "fox"

    run(launch_of("", question(RED, BLUE)), read, written.append)
    assert "exit status 0" in written, written


@pytest.mark.needs("bwrap")
def test_a_plan_says_that_the_run_would_refuse_the_images(qwen: Renderer) -> None:
    tokenizer = qwen.encoding.tokenizer  # type: ignore[attr-defined]
    for blind, ending in (("", ""), ("the run needs ranks=0", "ranks=0")):
        program = program_of(launch_of("", question(RED)), tokenizer, qwen, 0, blind)
        assert program.measured and ending in program.ending and bool(program.ending) == bool(ending)


def test_a_served_policy_sees_and_keeps_no_image(tmp_path: Path) -> None:
    """Gemma 3 has packed passes too, which do not see."""
    made = policy_server(str(seeing(tmp_path, "gemma3")), host="127.0.0.1", port=0, max_tokens=4)
    threading.Thread(target=made.run, daemon=True).start()
    port = int(made.url.rpartition(":")[2])

    def reply(*images: Image) -> dict[str, Any]:
        body = asked(PATHS[0], *(image.data for image in images), tools=False) | {
            "temperature": 1.5,
            "seed": 5,
            "logprobs": True,
        }
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", PATHS[0], json.dumps({**body, "messages": body["messages"][1:]}))
        found: dict[str, Any] = json.loads(connection.getresponse().read())["choices"][0]
        return found

    others = dict(SHELF._images)
    one, again, other, none = reply(OWN[0]), reply(OWN[0]), reply(OWN[1]), reply()
    assert one == again and one["logprobs"] != other["logprobs"] != none["logprobs"]
    assert SHELF._images == others
