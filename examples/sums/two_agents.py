"""An agent with openai-agents: one agent writes the calculation, another one reads its value and states the result."""

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
    writer = Agent(name="writer", model="policy", instructions="Write the calculation first.")
    reader = Agent(name="reader", model="policy", instructions="Reply with the result only.")
    task = sys.stdin.read()
    reply = Runner.run_sync(writer, task).final_output
    if found := CALCULATION.search(reply):
        reply = Runner.run_sync(reader, f"{task} The calculator says {found[0]} = {value(found[0])}.").final_output
    print((re.findall(r"\d+", reply) or [""])[-1])


main()
