"""One code lens, in JSON's own types: a file has hundreds, and each key that the user types asks for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight_server.convert import PlainRange

Lens = dict[str, Any]
"""`types.CodeLens` as it goes to the client."""


def lens(
    place: PlainRange, title: str, command: str = "", argument: Mapping[str, str | int] | None = None
) -> Lens:
    """Make a lens; without a command it is text alone."""
    return {
        "range": place,
        "command": {"title": title, "command": command, "arguments": [argument] if argument else []},
    }
