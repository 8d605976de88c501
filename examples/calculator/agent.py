"""An agent: it asks the policy, computes what the policy wants computed, and prints the answer."""

import ast
import operator
import re
import sys

from openai import OpenAI

SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def value(node):
    """The value of an expression of whole numbers. Raises: KeyError, AttributeError for anything else."""
    if isinstance(node, ast.BinOp):
        return SIGNS[type(node.op)](value(node.left), value(node.right))
    return int(node.value)


def main():
    client, messages = OpenAI(), [{"role": "user", "content": sys.stdin.read()}]
    for _ in range(3):
        reply = client.chat.completions.create(model="policy", messages=messages).choices[0].message.content
        slot = re.search(r"<answer>(.*?)</answer>", reply)
        text = slot[1].strip() if slot else ""
        if not text or text.isdigit():
            break
        try:
            result = value(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            result = "?"
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": f"={result}"}]
    print(text)


main()
