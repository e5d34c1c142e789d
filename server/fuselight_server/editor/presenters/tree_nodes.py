"""The nodes of the client's tree: labels, places, bounds and ids.

Invariant: each node has all keys of the protocol, a label and a description of one line, and at most `LISTED` entries
of one kind, with a node that counts the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight.shared.report.visible import visible
from fuselight_server.base.finding import Span
from fuselight_server.editor.messages.answers import NodeKernel, ReportNode
from fuselight_server.editor.presenters import convert

LISTED = 200
"""Entries of one kind that a node lists."""

LONGEST_LABEL = 300
LONGEST_TOOLTIP = 4000


@dataclass(frozen=True)
class NodeMaker:
    """Makes the nodes of one target."""

    view: convert.Client

    def node(
        self,
        kind: str,
        label: str,
        icon: str,
        *,
        description: str = "",
        tooltip: str = "",
        where: Span | None = None,
        kernel: NodeKernel | None = None,
        children: Iterable[ReportNode] = (),
    ) -> ReportNode:
        """Make one node. The client's menus depend on `kind`.

        `where` is the place that it jumps to, `kernel` the text that it opens instead.
        """
        label, description = _line(label), _line(description)
        return {
            "id": "",
            "label": label,
            "description": description,
            "tooltip": visible(_tooltip(label, description, tooltip))[:LONGEST_TOOLTIP],
            "accessibilityLabel": ", ".join(filter(None, [label, description])),
            "icon": icon,
            "uri": self.view.uri_of(where.path) if where else None,
            "range": convert.plain_range(where, self.view) if where else None,
            "contextValue": kind,
            "target": None,
            "kernel": kernel,
            "children": list(children),
        }

    def listed(self, kind: str, nodes: list[ReportNode], total: int | None = None) -> list[ReportNode]:
        """Return the first nodes, and one that counts the rest of `total`."""
        shown = nodes[:LISTED]
        more = (len(nodes) if total is None else total) - len(shown)
        return [*shown, self.node(kind, f"and {more:,} more", "ellipsis")] if more > 0 else shown

    def group(
        self,
        kind: str,
        label: str,
        icon: str,
        nodes: list[ReportNode],
        *,
        description: str = "",
        total: int | None = None,
    ) -> list[ReportNode]:
        """Make a node over `nodes` with their number; none without nodes."""
        if not nodes:
            return []
        count = len(nodes) if total is None else total
        children = self.listed(kind, nodes, total)
        return [self.node(kind, f"{label} ({count:,})", icon, description=description, children=children)]

    def changes(self, kind: str, texts: Iterable[str]) -> list[ReportNode]:
        """Make a node over what differs from the run before; none where nothing does."""
        nodes = [self.node(kind, text, "diff") for text in texts]
        return self.group("changes", "Changed since the run before", "diff", nodes)

    def problems(self, report: Report) -> list[ReportNode]:
        """Make one node for each part that the report lacks."""
        return [
            self.node("problem", problem.what, "question", description=problem.why)
            for problem in report.problems
        ]


def identified(node: ReportNode, identity: str) -> ReportNode:
    """Give a node and all below it their ids, which are the same for the same places in the tree."""
    counts: Counter[str] = Counter()
    for child in node["children"]:
        kind = child["contextValue"]
        identified(child, f"{identity}/{kind}/{counts[kind]}")
        counts[kind] += 1
    node["id"] = identity
    return node


def _tooltip(label: str, description: str, more: str) -> str:
    """All that a row says, of which a narrow side bar shows the beginning alone."""
    return "\n".join(
        part for part in (label, description, more) if part and (part is more or part not in more)
    )


def _line(text: str) -> str:
    """Return `text` on one line that is not too long for a tree."""
    line = visible(" ".join(text[: 2 * LONGEST_LABEL].split()))
    is_cut = len(text) > 2 * LONGEST_LABEL or len(line) > LONGEST_LABEL
    return f"{line[:LONGEST_LABEL]}\N{HORIZONTAL ELLIPSIS}" if is_cut else line
