"""Times of day and dates, whose notation resembles ratios and differences."""

from __future__ import annotations

import re

__all__ = ["DRESS", "parse_date"]

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
TIME = re.compile(r"([0-9]{1,2}) ?: ?([0-5][0-9])(?: ?([ap]) ?\.? ?m ?\.?)?")
FORMS = (
    re.compile(rf"(?P<month>{MONTH})\.? (?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>[0-9]{{4}}))?"),
    re.compile(rf"(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month>{MONTH})\.?(?:,? (?P<year>[0-9]{{4}}))?"),
    re.compile(r"(?P<year>[0-9]{4})-(?P<number>[0-9]{2})-(?P<day>[0-9]{2})"),
)
DRESS = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox|operatorname)(?![a-zA-Z])\s*|\\[,;:!]|[{}$~]|\\ ")


def parse_date(text: str) -> tuple[str, ...] | None:
    """A time as (`time`, hour, minute, a or p), a date as (`date`, year, month, day); None for any other text.

    A time from 13:00 on is p.m. Omitted parts are empty.
    """
    text = " ".join(DRESS.sub(" ", text).split()).replace(" :", ":").replace(" ,", ",").strip(" .").lower()
    if time := TIME.fullmatch(text):
        hour, minute, half = int(time[1]), time[2], time[3] or ""
        if hour > 23 or (half and not 1 <= hour <= 12):
            return None
        if hour > 12:
            hour, half = hour - 12, "p"
        return "time", str(hour), minute, half
    for form in FORMS:
        if date := form.fullmatch(text):
            fields = date.groupdict()
            month = fields.get("month")
            number = int(fields["number"]) if month is None else 1 + [name[:3] for name in MONTHS].index(month[:3])
            return "date", fields["year"] or "", str(number), str(int(fields["day"]))
    return None
