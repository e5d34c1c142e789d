"""Parses the message of a graph break, as torch formats it.

Invariant: no text is lost except the middle of a huge message; text in an unknown section stays in the section above.
torch has no object for these parts, so the same function reads an exception and a line of a trace.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

CHAIN = re.compile(r"\n*\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n*")
_LINK = re.compile(r"\n*\s*For more details about this graph break, please visit: \S*?gb(\d+)\.html")
_USER_CODE = re.compile(r"\n*from user code:\n.*", re.DOTALL)
_VERBOSE = re.compile(r"\n*Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace.*", re.DOTALL)
_SECTION = re.compile(
    r"^  (Explanation|Hint|Developer debug context|Higher Order Operator):[ ]?", re.MULTILINE
)
_LONGEST = 100_000
"""Characters of a message that are read: the user's values stand in it, and may be of any size."""


@dataclass(frozen=True)
class Reason:
    """One link of a chain of graph breaks. `gb_id` is that of its link to the registry's page, None without one."""

    title: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    gb_id: str | None = None


def read_reasons(message: str) -> tuple[Reason, ...]:
    """The chain in a message: the cause first, then what handling it ran into."""
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]}...{message[-_LONGEST // 2 :]}"
    message = _VERBOSE.sub("", _USER_CODE.sub("", message))
    return tuple(_read_reason(part) for part in CHAIN.split(message))


def _read_reason(text: str) -> Reason:
    link = _LINK.search(text)
    text = _LINK.sub("", text).strip("\n")
    pieces = _SECTION.split(text)
    title = pieces[0].strip()
    explanation, context = "", ""
    hints: list[str] = []
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        plain = _dedent(body)
        if name == "Explanation":
            explanation = plain
        elif name == "Hint":
            hints.append(plain)
        elif name == "Developer debug context":
            context = plain
        else:
            title = f"{title} ({plain})"
    return Reason(
        title, explanation, tuple(hints), context, None if link is None else f"GB{int(link[1]):04d}"
    )


def _dedent(body: str) -> str:
    first, _, rest = body.strip().partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip() if rest else first
