"""The report as a tree for the client's view: `fuselight/reportTree`. The client only shows it."""

from __future__ import annotations

import functools

from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import ReportTree
from fuselight_server.editor.messages.params import ReportTreeParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.prediction_nodes import prediction_nodes
from fuselight_server.editor.presenters.report_nodes import (
    ReportFixes,
    end_nodes,
    job_node,
    shown_results,
    target_node,
    with_further_results,
)
from fuselight_server.editor.presenters.tree_nodes import NodeMaker


async def report_tree(server: Server, params: ReportTreeParams) -> ReportTree:
    """Answer `fuselight/reportTree`."""
    path = convert.path(params.uri) if params.uri else None
    shown = shown_results(server.state, path)
    nodes, session = [], server.analysis.fixes
    for target in with_further_results(shown, server.state, path):
        result = target.capture
        changed = functools.partial(server.ui.results_changed, (result.key.path,))
        refused = await session.attempts.refused_fixes_soon(result, changed)
        fixes = ReportFixes(session.attempts.first_fix(result), refused)
        predictions = [
            prediction for prediction in server.state.predictions.values() if prediction.key == result.key
        ]
        readings = server.state.documents.readings_of(predictions)
        predicted = prediction_nodes(NodeMaker(server.view), predictions, readings)
        ends = end_nodes(server.state.results, server.state.run_ends, result, NodeMaker(server.view))
        nodes.append(
            target_node(
                result,
                server.view,
                target.kernels,
                [*ends, *predicted],
                fixes,
                accuracy=target.accuracy,
                memory=target.memory,
            )
        )
    nodes += [
        node for job in server.state.jobs.of_file(path) if (node := job_node(job, server.view)) is not None
    ]
    return {"nodes": nodes}
