"""Real clients and frameworks, unchanged: each plays a tool loop, and its turns go on from the sampled tokens."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from endpoint.programs import renderer_of
from endpoint.serving import Served, serving
from gnomon.agents.recorder import Bounds
from gnomon.rendering import Renderer
from gnomon.types import CALL_LIMITS

pytestmark = pytest.mark.needs("anthropic", "agents", "langgraph", "minisweagent", "openai", "smolagents")
ADD = '<tool_call>\n{"name": "add", "arguments": {"a":  %d, "b": 1}}\n</tool_call>'
FUNCTION = {
    "name": "add",
    "description": "Adds.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return renderer_of("qwen3", tmp_path_factory.mktemp("family"))


def counting(prompt: str, rng: Any) -> str:
    """Calls twice, each time with the last result, then answers with it."""
    results = re.findall(r"<tool_response>\n(.*?)\n</tool_response>", prompt.split("</tools>")[-1], re.DOTALL)
    thought = f"<think>\nstep {len(results)}\n</think>\n\n"
    if len(results) < 2:
        return thought + ADD % (int(re.findall(r"\d+", results[-1])[-1]) if results else 1)
    return thought + f"It is {results[-1]}."


def continued(served: Served, turns: int) -> None:
    """All turns are one sequence, each from the sampled tokens of the one before."""
    found = served.turns()
    assert [turn.fork for turn in found] == [0] * turns, served.policy.prompts
    assert served.recorder.sampled == turns


def test_openai_chat(qwen3: Renderer):
    import openai

    with serving(qwen3, counting) as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.key)
        messages: list[Any] = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
        for stream in (False, True, False):
            tools = [{"type": "function", "function": FUNCTION}]
            if stream:
                with client.chat.completions.stream(model="m", messages=messages, tools=tools) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
            messages.append(message.to_dict())
            for call in message.tool_calls or ():
                value = str(sum(json.loads(call.function.arguments).values()))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": value})
        assert message.content == "It is 3."
        continued(served, 3)


def test_openai_responses(qwen3: Renderer):
    import openai

    with serving(qwen3, counting) as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.key)
        items: list[Any] = [{"role": "user", "content": "q"}]
        for stream in (False, True, False):
            asked = {"model": "m", "input": items, "tools": [{"type": "function", **FUNCTION}], "instructions": "s"}
            if stream:
                with client.responses.stream(**asked) as events:
                    reply = events.get_final_response()
            else:
                reply = client.responses.create(**asked)
            items += [item.to_dict() for item in reply.output]
            for call in (item for item in reply.output if item.type == "function_call"):
                value = str(sum(json.loads(call.arguments).values()))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": value})
        assert reply.output_text == "It is 3."
        continued(served, 3)


def test_anthropic_messages(qwen3: Renderer):
    import anthropic

    with serving(qwen3, counting) as served:
        client = anthropic.Anthropic(base_url=served.url, api_key=served.key)
        tool = {"name": "add", "description": "Adds.", "input_schema": FUNCTION["parameters"]}
        messages: list[Any] = [{"role": "user", "content": "q"}]
        for stream in (False, True, False):
            asked = {"model": "m", "max_tokens": 300, "messages": messages, "tools": [tool], "system": "s"}
            if stream:
                with client.messages.stream(**asked) as events:
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(**asked)
            messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
            calls = [block for block in reply.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": str(sum(call.input.values()))}
                       for call in calls]  # fmt: skip
            messages.append({"role": "user", "content": results})
        assert (
            reply.content[-1].text == "It is 3."
            and client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "q"}]).input_tokens
        )
        continued(served, 3)


@pytest.mark.parametrize("bounds", [Bounds(calls=0), Bounds(calls=9, tokens=0), Bounds(calls=9, context=1)])
def test_clients_do_not_retry_a_limit(qwen3: Renderer, bounds: Bounds):
    import anthropic
    import openai

    with serving(qwen3, bounds=bounds) as served:
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
        with pytest.raises(openai.APIStatusError):
            openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.key).chat.completions.create(**asked)
        with pytest.raises(anthropic.APIStatusError):
            anthropic.Anthropic(base_url=served.url, api_key=served.key).messages.create(max_tokens=9, **asked)
        assert served.recorder.calls.refused in ({code: 2} for code in CALL_LIMITS.values())


def test_a_client_that_timed_out_gets_the_reply_by_its_own_retry(qwen3: Renderer):
    import openai

    with serving(qwen3, delay=1.0) as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.key, timeout=0.7, max_retries=3)
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "q"}])
        assert served.recorder.sampled == 1 and len(served.turns()) == 1


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_openai_agents(qwen3: Renderer, api: str, stream: bool, monkeypatch: pytest.MonkeyPatch):
    import agents
    import openai

    agents.set_tracing_disabled(True)

    @agents.function_tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    async def play(served: Served) -> Any:
        client = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=served.key)
        kind = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
        agent = agents.Agent(name="a", instructions="s", tools=[add], model=kind(model="m", openai_client=client))
        if not stream:
            return (await agents.Runner.run(agent, "q")).final_output
        result = agents.Runner.run_streamed(agent, "q")
        async for _ in result.stream_events():
            pass
        return result.final_output

    with serving(qwen3, counting) as served:
        assert asyncio.run(play(served)) == "It is 3."
        continued(served, 3)


@pytest.mark.long
def test_smolagents_code_and_tools(qwen3: Renderer):
    import smolagents

    def code(prompt: str, rng: Any) -> str:
        return f"Thought\n<code>\nfinal_answer({prompt.count('Observation:')} + 41)\n</code>rest"

    with serving(qwen3, code) as served:
        model = smolagents.OpenAIServerModel("m", api_base=f"{served.url}/v1", api_key=served.key)
        assert smolagents.CodeAgent(tools=[], model=model, verbosity_level=0).run("q") is not None
        (turn,) = served.turns()
        assert turn.completion.text.endswith("</code>")

    @smolagents.tool
    def add(a: int, b: int) -> int:
        """Adds.

        Args:
            a: one
            b: other
        """
        return a + b

    def call(prompt: str, rng: Any) -> str:
        name, values = (
            ("final_answer", '{"answer": "3"}') if "Observation:\n2" in prompt else ("add", '{"a": 1, "b": 1}')
        )
        return f'<tool_call>\n{{"name": "{name}", "arguments": {values}}}\n</tool_call>'

    with serving(qwen3, call) as served:
        model = smolagents.OpenAIServerModel("m", api_base=f"{served.url}/v1", api_key=served.key)
        assert smolagents.ToolCallingAgent(tools=[add], model=model, verbosity_level=0).run("q") == "3"
        # It writes calls as text of its own, so every turn is a branch; each is trained once.
        assert len(served.turns()) == served.recorder.sampled == 2
        assert served.recorder.calls.required == 2


def test_langgraph(qwen3: Renderer):
    import langchain_openai
    from langgraph import prebuilt

    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    with serving(qwen3, counting) as served:
        model = langchain_openai.ChatOpenAI(model="m", base_url=f"{served.url}/v1", api_key=served.key)
        agent = prebuilt.create_react_agent(model, [add])
        found = agent.invoke({"messages": [("user", "q")]})
        assert found["messages"][-1].content == "It is 3."
        continued(served, 3)


@pytest.mark.long
def test_mini_swe_agent(qwen3: Renderer, tmp_path: Path):

    def shell(prompt: str, rng: Any) -> str:
        command = (
            "echo hello > out.txt"
            if "<tool_response>" not in prompt.split("</tools>")[-1]
            else ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
        )
        return f'<tool_call>\n{{"name": "bash", "arguments": {{"command": "{command}"}}}}\n</tool_call>'

    with serving(qwen3, shell, max_tokens=2000) as served:
        variables = {
            **os.environ, "OPENAI_API_KEY": served.key, "OPENAI_API_BASE": f"{served.url}/v1",
            "OPENAI_BASE_URL": f"{served.url}/v1", "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path / "config"), "HOME": str(tmp_path),
        }  # fmt: skip
        words = ["-m", "minisweagent.run.mini", "-t", "q", "-y", "--exit-immediately", "-m", "openai/policy"]
        done = subprocess.run(
            [sys.executable, *words, "-o", str(tmp_path / "trajectory.json")],
            cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert (tmp_path / "out.txt").exists(), done.stdout + done.stderr
        continued(served, 2)
