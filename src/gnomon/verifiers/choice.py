"""Multiple choice: the letter of one option, its text, or both if they agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.types import Task, Verdict
from gnomon.verifiers.slot import Malformed, Several, Slot, require_shallow
from gnomon.verifiers.text import Rule, normal, unwrap

__all__ = ["Choice", "choice"]

RULES = (Rule.NFKC, Rule.CASE, Rule.SPACES)
"""How an option's text may differ from the answer's."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
JOINTS = frozenset(("or", "and", "&", "both", "either", "option", "options"))
LEAD = re.compile(r"(?:the )?(?:correct )?(?:option|choice)\b:? ?")
"""Words before an option."""
MARKED = re.compile(r"(\*\*|__|\*|`|\$)(?P<head>[^*_`$]{1,16})\1|\\(?:text|math)[a-z]{0,6}\{(?P<text>[^{}]{1,16})\}")
"""A letter in bold or as text, before more text."""
HEAD = re.compile(
    r"(?:\((?P<round>[a-z])\)[.:]?|\[(?P<square>[a-z])\][.:]?|(?P<bare>[a-z])(?:\)[.:]?|[.:]| [-–—](?= )|$))"
)


def choice(answer: str, options: Sequence[str]) -> int:
    r"""Index of the option that an answer names: `B`, `(b)`, `**B**`, `\text{B}`, `Option B`, `B) text`, or a text.

    Raises: Malformed if it names no option, or a letter and another option's text; Several if it names several.
    """
    letters = LETTERS[: len(options)].casefold()
    texts = [_text(option) for option in options]
    for parsed in _forms(answer):
        options_meant = {i for i, text in enumerate(texts) if text == _text(parsed)}
        head, rest = _head(parsed, letters)
        if head is not None and not rest:
            options_meant.add(head)
        elif head is not None and _text(rest) == texts[head]:
            return head
        elif head is not None and _text(rest) in texts:
            raise Malformed("the letter of one option and the text of another")
        if len(options_meant) == 1:
            return options_meant.pop()
        words = parsed.replace(",", " ").replace("/", " ").replace(";", " ").split()
        heads = [_head(unwrap(word), letters) for word in words if word not in JOINTS]
        if len(options_meant) > 1 or (len(heads) > 1 and all(head is not None and not rest for head, rest in heads)):
            raise Several("more than one option")
    raise Malformed("none of the options")


def _forms(answer: str) -> list[str]:
    """The answer as it is, and without the marks and words around an option."""
    plain = normal(answer, RULES)
    free = plain
    if (marked := MARKED.match(plain)) is not None:
        head, rest = marked["head"] or marked["text"], plain[marked.end() :]
        free = f"({head}){rest}" if len(head) == 1 and rest else head + rest
    return list(dict.fromkeys((plain, free, _strip_lead(unwrap(free)), unwrap(_strip_lead(free)))))


def _strip_lead(text: str) -> str:
    """The text without the words before an option."""
    return LEAD.sub("", text, count=1)


def _text(text: str) -> str:
    """A text for comparison with others: without marks around it, and without a full stop."""
    return unwrap(normal(text, RULES)).removesuffix(".").rstrip()


def _head(text: str, letters: str) -> tuple[int | None, str]:
    """The option whose letter comes first, as in `(b)`, `b.` or `b: text`, and the rest of the text."""
    match = HEAD.match(text)
    letter = "" if match is None else match["round"] or match["square"] or match["bare"]
    if match is None or letter not in letters:
        return None, text
    return letters.index(letter), text[match.end() :].strip()


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
        require_shallow(gold)
        index = LETTERS.find(gold.upper()) if isinstance(gold, str) and len(gold) == 1 else gold
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(options):
            raise ValueError(f"the task's own answer {gold!r:.100} is neither the letter nor the index of an option")
        return index
