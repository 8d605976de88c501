"""The same agent with openai-agents: it goes on with the conversation after the value of the first calculation."""

import re
import sys

from agents import Agent, Runner, set_default_openai_api, set_tracing_disabled

CALCULATION = re.compile(r"\d+(?: *[-+*x×] *\d+)+")


def value(text):
    """The value of whole numbers with `+`, `-`, `*`, `x` or `×` between them, without leading zeros."""
    return eval(re.sub(r"\b0+(?=\d)", "", text.replace("x", "*").replace("×", "*")))


def main():
    set_tracing_disabled(True)
    set_default_openai_api("chat_completions")  # With the other API, a truncated reply is an error.
    agent = Agent(name="calculator", model="policy")
    ended = Runner.run_sync(agent, f"{sys.stdin.read()} Write the calculation first.")
    if found := CALCULATION.search(ended.final_output):
        shown = f"The calculator says {found[0]} = {value(found[0])}. Reply with the result only."
        ended = Runner.run_sync(agent, [*ended.to_input_list(), {"role": "user", "content": shown}])
    print((re.findall(r"\d+", ended.final_output) or [""])[-1])


main()
