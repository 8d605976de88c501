"""Characters and commands of mathematical text, and the notation they are normalised to."""

from __future__ import annotations

__all__ = ["ASCII", "GREEK", "GREEK_COMMANDS", "LAYOUT", "RENAMED", "SIGNS", "SUBSCRIPT", "SUPERSCRIPT"]


def _words(text: str) -> list[str]:
    return text.split()


SIGNS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ",
    "∗": "*", "÷": r"\div ", "∕": "/", "⁄": "/", "√": r"\sqrt ", "∛": r"\sqrt[3] ", "∞": r"\infty ", "°": r"^\circ ",
    "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ",
    "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∖": r"\setminus ", "∅": r"\emptyset ",
    "Ø": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}", "ℕ": r"\mathbb{N}",
    "ℂ": r"\mathbb{C}", "⟨": r"\langle ", "⟩": r"\rangle ", "〈": r"\langle ", "〉": r"\rangle ", "′": "'", "’": "'",
    "∶": ":", "…": r"\ldots ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "£": r"\pounds ",
    "€": r"\euro ", "∧": r"\land ", "∨": r"\lor ", "¬": r"\neg ", "∼": r"\sim ", "→": r"\to ",
    "∫": r"\int ", "∑": r"\sum ", "∏": r"\prod ", "，": ", ", "；": "; ", "：": ":", "µ": r"\mu ",
}  # fmt: skip
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩϕϵ",
        _words(
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi "
            "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega phi epsilon"
        ),
        strict=True,
    )
)
GREEK_COMMANDS = frozenset(f"\\{name}" for name in GREEK.values()) | {r"\Upsilon", r"\ell", r"\hbar"}
SUPERSCRIPT = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni", strict=True))
SUBSCRIPT = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎", "0123456789+-=()", strict=True))
ASCII = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 +-*/^_=(){}[]<>|,.;:!%$'\\&~")

LAYOUT = frozenset(
    _words(
        r"\left \right \displaystyle \textstyle \scriptstyle \limits \nolimits \middle \big \Big \bigg \Bigg \bigl "
        r"\bigr \Bigl \Bigr \biggl \biggr \; \: \, \> \quad \qquad \thinspace \enspace \hline \boldmath \/"
    )
)
"""Commands that only change the appearance."""
RENAMED = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\nicefrac": r"\frac", r"\sfrac": r"\frac",
    r"\flatfrac": r"\frac", r"\leq": r"\le", r"\leqslant": r"\le",
    r"\leqq": r"\le", r"\geq": r"\ge", r"\geqslant": r"\ge", r"\geqq": r"\ge", r"\neq": r"\ne",
    r"\lt": "<", r"\gt": ">",
    "<=": r"\le", ">=": r"\ge", "!=": r"\ne", r"\times": "*", r"\cdot": "*", r"\div": "/", "**": "^", r"\ast": "*",
    r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lparen": "(", r"\rparen": ")", r"\lbrack": "[", r"\rbrack": "]",
    r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\%": "%", r"\varnothing": r"\emptyset", r"\colon": ":",
    r"\ratio": ":", r"\simeq": r"\approx", r"\thickapprox": r"\approx", r"\sim": r"\approx",
    r"\backslash": r"\setminus",
    r"\wedge": r"\land", r"\vee": r"\lor", r"\dots": r"\ldots", r"\cdots": r"\ldots", "...": r"\ldots",
    r"\varphi": r"\phi", r"\varepsilon": r"\epsilon", r"\vartheta": r"\theta", r"\cr": "\\\\", r"\tbinom": r"\binom",
    r"\dbinom": r"\binom", r"\degree": "°", r"\pounds": "£", r"\textsterling": "£", r"\euro": "€", r"\texteuro": "€",
    r"\textdollar": "$", r"\$": "$", r"\lnot": r"\neg", r"\notag": "", r"\implies": r"\to", r"\rightarrow": r"\to",
    r"\prime": "'", r"\mod": r"\bmod", r"\tg": r"\tan", r"\arctg": r"\arctan", r"\ctg": r"\cot",
}  # fmt: skip
