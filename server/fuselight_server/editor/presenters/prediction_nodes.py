"""What the edits since the last run change, as nodes of the report's tree.

Invariant: every entry says that it is predicted; what an ignore comment silences is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_place
from fuselight_server.commands.findings import without_ignored
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters.tree_nodes import NodeMaker
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.source.reading import Reading


def prediction_nodes(
    make: NodeMaker, predictions: Iterable[Prediction], readings: Mapping[str, Reading]
) -> list[ReportNode]:
    """Make the node of a target's predictions; none where there are none. `readings` are the open files by path."""
    nodes: list[ReportNode] = []
    effects: list[str] = []
    for prediction in predictions:
        effects += filter(None, [prediction.effect(readings)])
        nodes += (
            _finding(make, new, "predicted", "edit") for new in without_ignored(prediction.added(), readings)
        )
        gone = without_ignored(prediction.removed(), readings)
        nodes += (_finding(make, old, "gone after your edit (predicted)", "check") for old in gone)
        nodes += (
            make.node(
                "predicted",
                f"not predicted: {change}",
                "question",
                description="the next run shows its effect",
            )
            for change in prediction.deferred
        )
    return make.group("predicted", "Predicted from your edit", "edit", nodes, description="; ".join(effects))


def _finding(make: NodeMaker, finding: Finding, standing: str, icon: str) -> ReportNode:
    return make.node(
        "predicted",
        f"{finding.code}: {finding.title.removeprefix('graph break: ')}",
        icon,
        description=f"{standing}, {format_place(finding.span.path, finding.span.line)}",
        tooltip=finding.message,
        where=finding.span,
    )
