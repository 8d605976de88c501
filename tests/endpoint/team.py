"""A program: asks, spawns two helpers at once, edits history, compacts. Standard library only."""

import json
import os
import sys
import threading
import urllib.request


def ask(*messages):
    """The reply to messages, each (role, text)."""
    listed = [{"role": role, "content": text} for role, text in messages]
    body = json.dumps({"model": os.environ["MODEL"], "messages": listed, "temperature": 0.1, "seed": 7}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def main():
    question = ("user", sys.stdin.read())
    first = ask(question)
    helpers = ["", ""]

    def help_with(place):
        helpers[place] = ask(("user", f"{place} {first}"), ("assistant", "1"), ("user", "2"))

    threads = [threading.Thread(target=help_with, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second = ask(question, ("assistant", first), ("user", helpers[0] + helpers[1]))
    third = ask(question, ("assistant", "edited"), ("user", second))
    with open("answer.txt", "w") as file:
        file.write(third)
    print(os.getcwd(), sorted(os.listdir(".")), flush=True)
    sys.exit(len(third) % 3)


if __name__ == "__main__":
    main()
