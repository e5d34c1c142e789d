"""One node of the report's tree, as the client shows it.

Invariant: a node's texts have bounded lengths, since an exception's message can have megabytes; a node with a place
jumps to where that line is now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight_server.features import convert

if TYPE_CHECKING:
    from fuselight_server.finding import Span

Node = dict[str, Any]

LISTED = 200
"""Entries of one kind that a node lists."""

LONGEST_LABEL = 300
LONGEST_TOOLTIP = 4000


@dataclass(frozen=True)
class NodeMaker:
    """Makes the nodes of one target: `root` starts their ids."""

    view: convert.Client
    root: str

    def make(
        self,
        identity: str,
        label: str,
        icon: str,
        *,
        description: str = "",
        tooltip: str = "",
        where: Span | None = None,
        kind: str = "",
        kernel: Node | None = None,
        children: Iterable[Node] = (),
    ) -> Node:
        """Make one node; `where` is the place that it jumps to, `kernel` the text that it opens instead."""
        label, description = _line(label), _line(description)
        return {
            "id": f"{self.root}/{identity}",
            "label": label,
            "description": description,
            "tooltip": (tooltip or label)[:LONGEST_TOOLTIP],
            "accessibilityLabel": ", ".join(filter(None, [label, description])),
            "icon": icon,
            "uri": self.view.uri_of(where.path) if where else None,
            "range": convert.plain_range(where, self.view) if where else None,
            "contextValue": kind or identity.split("/", maxsplit=1)[0],
            "kernel": kernel,
            "children": list(children),
        }

    def listed(self, identity: str, nodes: list[Node], total: int | None = None) -> list[Node]:
        """Return the first nodes, and one that counts the rest of `total`."""
        shown = nodes[:LISTED]
        more = (len(nodes) if total is None else total) - len(shown)
        return (
            [*shown, self.make(f"{identity}/more", f"and {more:,} more", "ellipsis")] if more > 0 else shown
        )

    def group(
        self,
        identity: str,
        label: str,
        icon: str,
        nodes: list[Node],
        *,
        description: str = "",
        total: int | None = None,
    ) -> list[Node]:
        """Make a node over `nodes` with their number; none without nodes."""
        if not nodes:
            return []
        count = len(nodes) if total is None else total
        children = self.listed(identity, nodes, total)
        return [self.make(identity, f"{label} ({count:,})", icon, description=description, children=children)]


def _line(text: str) -> str:
    """Return `text` on one line that is not too long for a tree."""
    line = " ".join(text[: 2 * LONGEST_LABEL].split())
    is_cut = len(text) > 2 * LONGEST_LABEL or len(line) > LONGEST_LABEL
    return f"{line[:LONGEST_LABEL]}\N{HORIZONTAL ELLIPSIS}" if is_cut else line
