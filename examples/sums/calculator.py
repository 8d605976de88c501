"""An agent with the openai SDK: the policy writes a calculation, sees its value, and states the result."""

import re
import sys

from openai import OpenAI

CALCULATION = re.compile(r"\d+(?: *[-+*x×] *\d+)+")


def value(text):
    """The value of whole numbers with `+`, `-`, `*`, `x` or `×` between them, without leading zeros."""
    return eval(re.sub(r"\b0+(?=\d)", "", text.replace("x", "*").replace("×", "*")))


def main():
    client, messages = OpenAI(), [{"role": "user", "content": f"{sys.stdin.read()} Write the calculation first."}]
    for last in (False, True):
        reply = client.chat.completions.create(model="policy", messages=messages).choices[0].message.content
        found = CALCULATION.search(reply)
        if last or not found:
            break
        shown = f"The calculator says {found[0]} = {value(found[0])}. Reply with the result only."
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": shown}]
    print((re.findall(r"\d+", reply) or [""])[-1])


if __name__ == "__main__":
    main()
