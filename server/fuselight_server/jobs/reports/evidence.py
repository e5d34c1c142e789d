"""The files that the logs of a job name, with the lines that they quote.

Invariant: every path that a Report of the job can have is here, so that it is mapped like all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuselight_server.jobs.reports.moved_lines import SourceEvidence
from fuselight_server.jobs.reports.texts import LogTexts
from fuselight_server.jobs.trace_log.facts import read_printed_stack
from fuselight_server.jobs.trace_log.graphs import GraphLine
from fuselight_server.jobs.trace_log.model import (
    CompileAttempt,
    GraphKind,
    LogFrame,
    LoggedCompile,
    ProcessLog,
)

QUOTING = frozenset({GraphKind.DYNAMO, GraphKind.FORWARD, GraphKind.INFERENCE, GraphKind.BACKWARD})
"""Graphs whose nodes have lines of source."""


def read_evidence(processes: Iterable[ProcessLog], texts: LogTexts) -> dict[str, SourceEvidence]:
    """What the logs of some processes show of the files of the job, by path in the job."""
    out: dict[str, SourceEvidence] = {}
    for process in processes:
        for compiled in process.compiles:
            _add_compile(compiled, texts, out)
        for line in process.imports.lines if process.imports is not None else ():
            out.setdefault(line.location.path, SourceEvidence())
    return out


def _add_compile(compiled: LoggedCompile, texts: LogTexts, out: dict[str, SourceEvidence]) -> None:
    for frame in _frames_of(compiled):
        known = out.setdefault(frame.path, SourceEvidence())
        if frame.text:
            known.add_quote(frame.line, frame.text, frame.function)
    for attempt in compiled.attempts:
        _add_functions(attempt, out)
        for graph in attempt.graphs:
            if graph.kind in QUOTING:
                _add_nodes(texts.lines(graph.payload), out)


def _add_functions(attempt: CompileAttempt, out: dict[str, SourceEvidence]) -> None:
    for metrics in attempt.metrics:
        if metrics.path is not None:
            known = out.setdefault(metrics.path, SourceEvidence())
            if metrics.line is not None and metrics.function and attempt.resumed_at is None:
                known.functions.add((metrics.line, metrics.function))


def _add_nodes(nodes: Iterable[GraphLine], out: dict[str, SourceEvidence]) -> None:
    for node in nodes:
        if node.path is not None:
            known = out.setdefault(node.path, SourceEvidence())
            if node.line is not None and node.text:
                known.add_quote(node.line, node.text, node.function)


def _frames_of(compiled: LoggedCompile) -> Iterator[LogFrame]:
    for attempt in compiled.attempts:
        yield from attempt.stack
        for item in attempt.breaks:
            yield from item.stack
        stacks = [item.stack for item in attempt.symbols]
        stacks += [item.stack for item in attempt.specializations]
        stacks += [item.stack for item in attempt.symbol_guards]
        for stack in stacks:
            yield from stack
        for reason in attempt.recompile_reasons or ():
            yield from read_printed_stack(reason)
