"""The report of a target as one HTML file, from the nodes of its tree, for editors without such a view.

Invariant: no text becomes markup, and the page loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuselight_server.base.formatting import format_place
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters import convert
from fuselight_server.explain.pages.document import static_page
from fuselight_server.explain.pages.parts import html_text

_OPEN_DEPTH = 2
"""Levels of the tree that are open at first."""


def report_page(title: str, nodes: Sequence[ReportNode]) -> str:
    """Return the page of some targets' nodes."""
    return static_page(f"Report: {title}", "", (), (f"<section>{_node(node, 0)}</section>" for node in nodes))


def _node(node: ReportNode, depth: int) -> str:
    """A node with all below it; a tooltip that says more than its label stands below the label."""
    label, description = node["label"], node["description"]
    head = f"<span>{html_text(label)}</span>"
    head += f'<span class="muted">{html_text(description)}</span>' if description else ""
    head += f"<code>{html_text(_place(node))}</code>" if node["uri"] else ""
    tooltip = node["tooltip"] if node["tooltip"] not in {label, description} else ""
    more = f'<div class="more">{html_text(tooltip)}</div>' if tooltip and not node["children"] else ""
    if not node["children"]:
        return f'<div class="leaf">{head}{more}</div>'
    is_open = " open" if depth < _OPEN_DEPTH else ""
    children = "".join(_node(child, depth + 1) for child in node["children"])
    return f"<details{is_open}><summary>{head}</summary>{children}</details>"


def _place(node: ReportNode) -> str:
    uri = node["uri"] or ""
    path = convert.path(uri) or uri
    return format_place(path, node["range"]["start"]["line"] + 1) if node["range"] else path
