"""Words for people: times, states, relays and counts as one would say them. Pure.

Promises: what it returns is one line without control codes, whatever a stranger's event holds.
"""

from __future__ import annotations

import re
from datetime import datetime

from postrich.model.job import Job, JobState

_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]+"
)
_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))

#: What states are called on a narrow screen.
STATE_WORDS = {
    JobState.PENDING_SIGN: "unsigned",
    JobState.PENDING_PUBLISH: "waiting",
}
#: The other way round, for what people type.
STATES_MEANT = {
    "unsigned": (JobState.PENDING_SIGN,),
    "waiting": (JobState.PENDING_PUBLISH,),
    "pending": (JobState.PENDING_SIGN, JobState.PENDING_PUBLISH),
    **{state.value: (state,) for state in JobState},
}


def state_word(state: JobState) -> str:
    return STATE_WORDS.get(state, state.value)


def span(milliseconds: float) -> str:
    """A length of time in its largest unit: `12 s`, `3 min`, `2 days`."""
    seconds = max(0.0, milliseconds / 1000)
    if seconds < 9.95 and round(seconds, 1) != round(seconds):
        return f"{seconds:.1f} s"
    for size, unit in _UNITS:
        count = round(seconds / size)
        if seconds >= size and count:
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return "0 s"


def ago(at: int, now: int) -> str:
    """`3 min ago`; what is to come is said as such."""
    if at - now > 1000:
        return until(at, now)
    return "just now" if now - at < 1000 else f"{span(_whole(now - at))} ago"


def until(at: int, now: int) -> str:
    """`in 12 s`; what is due is `now`."""
    return "now" if at <= now else f"in {span(at - now)}"


def clock_time(at: int, now: int) -> str:
    """The local time; with its date where that is not today's."""
    when = datetime.fromtimestamp(at / 1000).astimezone()
    today = datetime.fromtimestamp(now / 1000).astimezone().date()
    return f"{when:%H:%M:%S}" if when.date() == today else f"{when:%Y-%m-%d %H:%M:%S}"


def when(at: int, now: int) -> str:
    """Both ways: `in 12 s (14:03:22)`."""
    relative = until(at, now) if at > now else ago(at, now)
    return f"{relative} ({clock_time(at, now)})"


def count(number: int, noun: str) -> str:
    """`1 job`, `1,000 jobs`, `2 deliveries`."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {plural}"


def plain(text: str) -> str:
    """A stranger's text on one line, without codes that would act on the terminal."""
    return " ".join(_UNSEEN.sub(" ", text).split(" ")).strip()


def snippet(text: str, width: int) -> str:
    """The beginning of a text."""
    line = plain(text[: 4 * width])
    return line if len(line) <= width else line[: width - 1] + "…"


def relay_name(url: str) -> str:
    """A relay as people say it: without `wss://` and the last slash."""
    return plain(url).removeprefix("wss://").removesuffix("/")


def reached(job: Job) -> str:
    """`2 of 3 relays`."""
    return f"{len(job.delivered)} of {count(len(job.deliveries), 'relay')}"


def _whole(milliseconds: float) -> float:
    return milliseconds // 1000 * 1000
