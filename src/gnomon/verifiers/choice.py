"""Multiple choice: the letter of one option, its text, or both if they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.types import Task, Verdict
from gnomon.verifiers.slot import Malformed, Several, Slot
from gnomon.verifiers.text import Rule, normal

__all__ = ["Choice", "choice"]

RULES = (Rule.NFKC, Rule.CASE, Rule.SPACES)
"""How an option's text may differ from the answer's."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
JOINTS = frozenset(("or", "and", "&", "both", "either"))


def choice(answer: str, options: Sequence[str]) -> int:
    """Index of the option that an answer names: `B`, `(b)`, `B.`, `B) its text`, or its text alone.

    Raises: Malformed if it names no option, or a letter and another option's text; Several if it names several.
    """
    letters = LETTERS[: len(options)]
    parsed = normal(answer, RULES)
    texts = [normal(option, RULES) for option in options]
    named = {place for place, text in enumerate(texts) if text == parsed}
    head, rest = _head(parsed, letters.casefold())
    if head is not None and not rest:
        named.add(head)
    elif head is not None and rest == texts[head]:
        return head
    elif head is not None and rest in texts:
        raise Malformed("the letter of one option and the text of another")
    if len(named) == 1:
        return named.pop()
    words = parsed.replace(",", " ").replace("/", " ").replace(";", " ").split()
    heads = [_head(word, letters.casefold()) for word in words if word not in JOINTS]
    if len(named) > 1 or (len(heads) > 1 and all(head is not None and not rest for head, rest in heads)):
        raise Several("more than one option")
    raise Malformed("none of the options")


def _head(text: str, letters: str) -> tuple[int | None, str]:
    """The option whose letter comes first, as in `(b)`, `b.` or `b: text`, and the rest of the text."""
    opened = text.startswith("(")
    body = text[1:] if opened else text
    if not body or body[0] not in letters:
        return None, text
    rest = body[1:]
    if opened and not rest.startswith(")"):
        return None, text
    if rest and rest[0] not in ").:":
        return None, text
    return letters.index(body[0]), rest[1:].strip()


@dataclass(frozen=True, kw_only=True)
class Choice(Slot):
    """Multiple choice. `info["options"]` of the task lists the texts; its answer is the letter or index of one."""

    format: float = 0.0

    def verify(self, task: Task, reply: str) -> Verdict:
        options = task.info.get("options", ())
        right = self._gold(task.answer, options)
        return self.judge(reply, lambda answer: choice(answer, options) == right)

    def _gold(self, gold: object, options: object) -> int:
        """Index of the correct option. Raises: ValueError if the task is not multiple choice."""
        if not isinstance(options, list | tuple) or not 2 <= len(options) <= len(LETTERS):
            raise ValueError(f"a multiple-choice task has 2 to {len(LETTERS)} texts in info['options']")
        place = LETTERS.find(gold.upper()) if isinstance(gold, str) and len(gold) == 1 else gold
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(options):
            raise ValueError(f"the task's own answer {gold!r:.100} is neither the letter nor the index of an option")
        return place
