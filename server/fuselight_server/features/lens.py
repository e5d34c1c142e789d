"""One code lens, in JSON's own types: a file has hundreds, and each keystroke asks for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight_server.formatting import format_moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight_server.features.convert import PlainRange
    from fuselight_server.results.target_result import TargetResult

Lens = dict[str, Any]
"""`types.CodeLens` as it goes to the client."""

LONGEST = 60
"""Characters of a lens. The hover of the same line has the rest."""

STALE = "before your edit"


@dataclass(frozen=True)
class Info:
    """A lens that informs."""

    text: str
    state: str = ""
    """Why the result is not final or not of the current text; `STALE`, or what the result says of itself."""
    command: str = ""
    """The client's command that a click runs."""
    target: str | None = None
    """The target that the command is for, if that is another one."""


def lens(
    place: PlainRange, title: str, command: str = "", argument: Mapping[str, str | int] | None = None
) -> Lens:
    """Make a lens; without a command it is text alone."""
    return {
        "range": place,
        "command": {"title": title, "command": command, "arguments": [argument] if argument else []},
    }


def shorten(text: str, longest: int = LONGEST) -> str:
    """Cut `text` where a lens ends."""
    line = " ".join(text[: 2 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def age(result: TargetResult) -> str:
    """Say that a result is of the text before an edit, or when an earlier session made it."""
    if result.stale or not result.restored:
        return STALE if result.stale else ""
    return f"from {format_moment(result.restored)}"


def with_state(text: str, state: str) -> str:
    """Append a state in parentheses."""
    return f"{text} ({state})" if state else text
