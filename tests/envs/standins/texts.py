"""Text environments with Gymnasium's `reset` and `step`: one that is right, and some that fail."""

import contextlib
import os
import random
import secrets
import time


class Guess:
    """Guess a number; a wrong guess costs nothing, the right one pays 1."""

    def __init__(self, largest=9):
        self.largest = largest

    def reset(self, seed):
        self.secret = random.Random(seed).randint(1, self.largest)
        print("noise that must not be taken for an answer")
        return f"Guess a number from 1 to {self.largest}.", {}

    def step(self, text):
        if not (text.isascii() and text.isdigit()):
            return "That is no number.", 0.0, False, False, {}
        right = int(text) == self.secret
        return "Right." if right else ("Less." if int(text) > self.secret else "More."), float(right), right, False, {}


class Global(Guess):
    """Ignores its seed, and draws from the generator of the process."""

    def reset(self, seed):
        return super().reset(random.getrandbits(31))


class Unseeded(Guess):
    """Draws from what nobody can seed."""

    def reset(self, seed):
        text, info = super().reset(secrets.randbits(31))
        return f"{text} Hint: {secrets.token_hex(4)}", info


class Failing(Guess):
    """Fails in the way that a reply names."""

    def step(self, text):
        match text:
            case "raise":
                raise RuntimeError("broken on purpose")
            case "exit":
                os._exit(3)
            case "sleep":
                time.sleep(60)
            case "spin":
                while True:
                    pass
            case "nan":
                return "", float("nan"), True, False, {}
            case "rich":
                return "", 7.0, True, False, {}
            case "forge":  # What runs code of a reply in its own process lets it find the connection.
                for number in range(3, 64):
                    with contextlib.suppress(OSError):
                        os.write(number, b'{"text": "", "player": 0, "done": true, "rewards": [1.0]}\n')
            case "number":
                return 5, 0.0, False, False, {}
        return super().step(text)
