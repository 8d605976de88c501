"""A run in which everything that a model or a stranger wrote attacks the page that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gnomon.store import Record, Run
from gnomon.store.notes import Note, write_note

__all__ = ["FORBIDDEN", "attacks", "hostile_run", "pages", "probe"]

OWN = "document.title='owned';window.owned=1"
ELSEWHERE = "http://127.0.0.1:9/stolen"
"""Where no request may go."""
PAYLOADS = (
    f"<script>{OWN}</script>",
    f'<img src=x onerror="{OWN}">',
    f'"><svg onload="{OWN}">',
    f"' onmouseover='{OWN}' autofocus onfocus='{OWN}",
    f'<a href="javascript:{OWN}" id="filter" data-key="n">next</a>',
    f'<iframe src="{ELSEWHERE}" srcdoc="<script>{OWN}</script>"></iframe>',
    f'<link rel="stylesheet" href="{ELSEWHERE}"><style>@import "{ELSEWHERE}"; main {{ display: none }}</style>',
    f'<img src="{ELSEWHERE}"><audio src="{ELSEWHERE}" autoplay></audio><object data="{ELSEWHERE}"></object>',
    f'<meta http-equiv="refresh" content="0;url={ELSEWHERE}"><base href="{ELSEWHERE}/">',
    f'<form action="{ELSEWHERE}"><input type="password"><button formaction="{ELSEWHERE}">go</button></form>',
    "</pre></bdi></td></table></section></main><h1>not ours</h1>",
    "</textarea></title></style></script><h1>not ours</h1>",
    "{{ 7 * 7 }} {% raw %} {{ ''.__class__.__mro__ }} ${7 * 7} #{7 * 7} <%= 7 * 7 %>",
    "\x1b[2J\x1b]0;owned\x07\x1b[31m\x9b31m\x90q",
    "a\u202eb\u2066c\u2069\u200fd\u061c\u200be\ufeff",
    "\x00\x01\x08\x0b\x0c\r\x7f\x85\u2028\u2029\ufffe\uffff",
    "\ud800 lone \udfff halves \udc80\udcff of broken UTF-8",
    "&lt;script&gt; &amp;amp; &#60;b&#62; &NewLine;&colon;",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘" * 20,
    "%3Cscript%3E ../../../etc/passwd file:///etc/passwd \\\\host\\share",
    "' OR 1=1; DROP TABLE rollouts; -- \" MATCH ( * NEAR",
    "😀👩‍👩‍👧‍👦\U000e0041\U0001f3f4" * 30,
    "<!--", "]]>", "<![CDATA[",
)  # fmt: skip
FRAMES = (
    "{}", "\n\n{}\n", "{0}{0}{0}", "<answer>{}</answer>", "```html\n{}\n```", '{{"json": "{}"}}', "<!-- {} -->",
    "x\x00{}\x00y", "\u202e{}\u202c", "\x1b[1m{}\x1b[0m", "<b><i><u>{}", "<pre>{}</pre>", "<textarea>{}</textarea>",
    "<title>{}</title>", "<template>{}</template>", "<noscript>{}</noscript>", "<math><mtext>{}</mtext></math>",
    "<svg><style>{}</style></svg>", "\u00a0{}\u00a0", "<mark>{}</mark>",
)  # fmt: skip
LONG_LINE = 10_000_000
HIDDEN = r"\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""Signs that a reader does not see: controls, changes of the writing direction, lone surrogates."""
PAIR = r"[\ud800-\udbff][\udc00-\udfff]"
"""Two surrogates, as JavaScript holds one sign beyond the first 65,536."""
FORBIDDEN = (
    "main :is(img, svg:not(td > .spark), style, script, iframe, object, audio, math, textarea:not(.editor > form *), "
    "template, meta, base, link, object)"
)
"""No page has such an element where it shows a run, but its own sparklines and the field of its note."""


def attacks(count: int) -> list[str]:
    """So many different texts, at most 500, spread over all payloads."""
    every = [frame.format(payload) for frame, payload in product(FRAMES, PAYLOADS)]
    stride = len(every) // count
    return every[::stride][:count] if stride > 1 else every[:count]


def hostile_run(folder: Path, count: int, long_lines: int = 1) -> None:
    """Write a run in which every text is an attack. Args: long_lines: replies of a single line of 10 MB."""
    texts = attacks(count)
    storable = [text.encode("utf-8", "replace").decode().replace("\0", " ") for text in texts]
    finding = {name: texts[0] for name in ("axis", "rule", "severity", "what", "where", "why", "fix")}
    receipt = {
        **{"hash": texts[0], "blocking": 1, "warning": 0, "note": 0, "tasks": 1, "acknowledged": texts[:2]},
        **{"rules": texts[:2], "skipped": {texts[1]: texts[2]}},
        "findings": [
            {**finding, "count": 1, "acknowledged": True, "evidence": {"task": texts[1], "index": 0, "reply": texts[2]}}
        ],
    }
    recipe = '[env]\ntype = "<script>document.title=1</script>"\n\n[objective]\ntype = "<img src=x>"\n# <script>\n'
    genesis = {"config": {"<script>": {texts[0].replace("\ud800", "x"): texts[1]}}}
    with Run.create(folder, recipe=recipe, manifest={"tier": texts[0], "audit": receipt}, genesis=genesis) as run:
        write_note(folder, Note.of("\n".join(texts), ["\ud800 \u202e", *texts]))
        run.append(list(records(texts, storable, "held_out")))
        run.append([*records(texts, storable, "rollout"), *long(long_lines), step(texts)])
        run.note("alarm", {"name": texts[3], "step": 0, "sentence": texts[4], "read": ["0:0:0", texts[5]]})


def records(texts: list[str], storable: list[str], kind: str) -> Iterator[Record]:
    """Groups of eight."""
    for start in range(0, len(texts), 8):
        task, here = start // 8, texts[start : start + 8]
        message = {"role": here[0], "content": here[-1]}
        asked = {"of": kind, "id": here[0], "messages": [message], "answer": here[-1], "prompt_ids": [1, 2]}
        yield Record(kind="task", step=0, task=task, body={**asked, "origins": [["task", 1], ["template", 1]]})
        for sample, text in enumerate(here):
            body = rollout(text, storable[start + sample])
            yield Record(kind=kind, step=0, task=task, sample=sample, body=body)
    if kind == "held_out":
        yield Record(kind="baseline", step=0, body={"pass_at": {}, "length": 1.0, "truncated": 0.0})


def rollout(text: str, storable: str) -> dict[str, Any]:
    return {
        "reply": text, "token_ids": [1, 2, 300, 4], "logprobs": "AACAvwAAAL8AAMB/AACAvw==", "tokens": 4,
        "finish": "stop", "stop": "done", "version": 0, "reward": 0.5, "advantage": 0.25, "status": "wrong",
        "parts": [{"name": text, "value": 0.5, "weight": 1.0, "gate": None}],
        "extracted": text, "span": [0, 1], "detail": storable,
    }  # fmt: skip


def long(count: int) -> Iterator[Record]:
    if count:
        asked = {
            "of": "rollout",
            "id": "long",
            "messages": [{"role": "user", "content": "x" * LONG_LINE}],
            "answer": "",
        }
        yield Record(kind="task", step=0, task=900, body={**asked, "prompt_ids": [], "origins": []})
    for sample in range(count):
        line = ("<b>" + "x" * 999_997) * (LONG_LINE // 1_000_000)
        yield Record(kind="rollout", step=0, task=900, sample=sample, body=rollout(line, ""))


def step(texts: list[str]) -> Record:
    names = dict.fromkeys(text.replace("\0", "") for text in texts[:20])
    metrics = {**{f"part/{name}": 0.5 for name in names}, "reward": 0.5, "logp_mismatch": 0.0}
    return Record(kind="step", step=0, body={"metrics": metrics, "statuses": {}})


def pages(run: str, count: int, every: int = 1) -> Iterator[str]:
    """The addresses of all pages about a hostile run. Args: run: its name; every: show each so-manieth rollout."""
    at = f"/run/{quote(run)}/-/"
    yield from ("/", at, f"{at}audit", f"{at}step/0", f"{at}held-out/0", f"{at}task/0", f"{at}task/900")
    yield from (f"{at}tasks", f"{at}doctor", f"/overlay?run={quote(run)}", f"/overlay?run={quote(run)}&by=tags")
    yield from (f"/compare?a={quote(run)}&b={quote(run)}", f"/compare/task?a={quote(run)}&b={quote(run)}&task=0")
    yield from (f"{at}rollout/0:900:0", f"/environment/{quote('<script>document.title=1</script>')}", "/environments")
    for text in islice(attacks(count), 0, None, max(1, every * 8)):
        sent = quote(text.encode("utf-8", "replace"))
        yield from (f"{at}search?text={sent}&task={sent}&status={sent}", f"/compare?a={sent}&b={sent}")
        yield f"/run/{sent}/-/"
    for number in range(0, count, every):
        kind = "held-out:" if number % 2 else ""
        place = f"{kind}0:{number // 8}"
        shown = ("", "?channel=origin", "?as=markdown")[number // every % 3]
        yield f"{at}rollout/{place}:{number % 8}{shown}"
        if number % 8 == 0:
            yield from (f"{at}group/{place}?with=3", f"{at}search?task={number // 8}")


def probe() -> str:
    """An expression whose value is empty on a page that an attack did not change, and else says what it changed."""
    checks = {
        "title": "!/Gnomon$/.test(document.title) || document.title.includes('owned')",
        "executed": "window.owned !== undefined",
        "element": f"document.querySelector({FORBIDDEN!r}) !== null",
        "heading": "document.querySelectorAll('h1').length !== 1",
        "style": "document.querySelector('[style]:not(.chart *)') !== null",
        "handler": "[...document.querySelectorAll('*')].some(e => e.getAttributeNames().some(n => n.startsWith('on')))",
        "link": "[...document.links].some(a => a.origin !== location.origin)",
        "hidden sign": f"/[{HIDDEN}]/.test(document.querySelector('main').innerText.replace(/{PAIR}/g, ''))",
    }
    return "[" + ", ".join(f"({check}) ? {name!r} : ''" for name, check in checks.items()) + "].join('')"
