"""FL917: a branch that depends on the value of a collective, which is not real without a network.

Invariant: a finding names a branch only if the value reaches it through lines of the program that the ranks ran: the
line of the collective and its callers come from the run, the way from there to the branch from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Collective, Location, Stack
from fuselight_server.base.finding import Finding, Related
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.source.value_flow import CallSite, ValueBranches, branches_on

CODE = "FL917"
_WITHOUT_VALUE = frozenset({"barrier", "send"})
_MAX_COLLECTIVES = 500
_TEXT = (
    "The ranks ran without a network, so the result of this collective is not real, and a job may take the other side "
    "of the branch. What follows the branch in this run is true for one side alone."
)
_HINT = "Run the job with real processes to see which side it takes: fuselight run -m torch.distributed.run"


@dataclass(frozen=True)
class _Dependence:
    """A branch, and the collective whose value it depends on."""

    at: Location
    kind: str
    origin: Location


def collective_value_findings(context: Context) -> Iterator[Finding]:
    """The branches that depend on values of collectives."""
    world = context.report.world
    if world is None:
        return
    modules = _Modules(context)
    seen: dict[tuple[str, int], _Dependence] = {}
    for collective in _collectives(context):
        for dependence in _dependences(context, modules, collective):
            seen.setdefault((dependence.at.path, dependence.at.line), dependence)
    for dependence in sorted(seen.values(), key=lambda item: (item.at.path, item.at.line)):
        origin = dependence.origin
        where = f"on line {origin.line}" if origin.path == dependence.at.path else "in another file"
        yield context.finding(
            CODE,
            f"this branch depends on the value of the {dependence.kind} {where}, which is not known",
            _TEXT,
            at=dependence.at,
            hints=(_HINT,),
            related=(Related(span_of(origin), f"{dependence.kind} is called here"),),
        )


def _collectives(context: Context) -> Iterator[Collective]:
    """Collectives of the program, each place once."""
    world = context.report.world
    seen: set[tuple[str, Stack]] = set()
    for group in world.groups if world is not None else ():
        for collective in group.collectives:
            key = (collective.kind, collective.stack)
            is_programs = not collective.source and not collective.is_backward
            if is_programs and collective.kind not in _WITHOUT_VALUE and key not in seen:
                seen.add(key)
                yield collective
            if len(seen) >= _MAX_COLLECTIVES:
                return


def _dependences(context: Context, modules: _Modules, collective: Collective) -> Iterator[_Dependence]:
    """Branches in the function that calls a collective, and in its callers as far as they get the value."""
    frames = [frame for frame in reversed(collective.stack) if context.is_user_file(frame.path)]
    callee = ""
    result = ValueBranches(is_returned=True)
    for frame in frames:
        module = modules.module(frame.path)
        if module is None or not (result.is_returned or result.parameters):
            return
        site = CallSite(
            frame.line, callee, result.is_returned, result.parameters, result.positions, result.is_method
        )
        result = branches_on(module, site)
        for node in result.branches:
            yield _Dependence(_location(frame, node), collective.kind, frames[0])
        callee = (frame.function or "").rpartition(".")[2]


def _location(frame: Location, node: ast.expr) -> Location:
    return Location(
        frame.path,
        node.lineno,
        node.col_offset,
        node.end_lineno,
        node.end_col_offset,
        function=frame.function,
    )


class _Modules:
    """The files of the program, parsed once each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, ast.Module | None] = {}

    def module(self, path: str) -> ast.Module | None:
        """None for a file that cannot be read or parsed."""
        if path not in self._known:
            self._known[path] = try_parse_python(self._context.text_of(path))
        return self._known[path]
