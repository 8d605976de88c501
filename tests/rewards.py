"""A reward function of tests, in a file that imports nothing: every pool of processes that calls it imports it anew."""

__all__ = ["right"]


def right(completion: str, answer: str) -> bool:
    return completion.strip() == answer
