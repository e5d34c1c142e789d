"""Findings from the source alone: unusable directives, targets without example inputs, unused ignore comments.

Invariant: nothing here has run anything; every finding has tier `static`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Span
from fuselight_server.base.formatting import format_list, format_target
from fuselight_server.base.remedies import advice
from fuselight_server.explain.findings.common import catalogue
from fuselight_server.explain.findings.common.catalogue import Origin
from fuselight_server.explain.findings.common.causes import group_by_cause
from fuselight_server.explain.findings.common.text import compose
from fuselight_server.source.reading import DirectiveProblem, Ignore, Reading, StaticTarget

HasRun = Callable[[str, Origin], bool]
"""Whether what finds the codes of an origin has run for the file with this path."""

_NO_INPUTS_HINTS = (
    "Provide example inputs above it, such as `# fuselight: {}`",
    "Or define example_inputs() in this file, or run the program once with `fuselight run`",
)


def example_unread(target: StaticTarget) -> str:
    """A call of a target of which the signature is not read: what it takes is left open."""
    name = target.name.rsplit(".", 1)[-1]
    if target.kind == "module":
        return f"{name}()(...)"
    return f"{target.attribute_of}().{name}(...)" if target.attribute_of else f"{name}(...)"


def static_findings(
    reading: Reading,
    *,
    answered: Collection[str] = (),
    hints: int | None = None,
    example: Callable[[StaticTarget], str] = example_unread,
) -> tuple[Finding, ...]:
    """Directive problems, and a hint on each compiled target that no rung can give inputs to.

    `example` writes a call of a target as a directive has it, from its signature, which takes a while.

    `answered` names targets for which a run has found inputs where the source alone shows none: recorded calls,
    shape annotations, the model's own dummy inputs. `hints` bounds how many targets are hinted at.
    """
    out = [_directive_finding(problem) for problem in reading.directive_problems]
    # Of two definitions of one name, in the branches of an `if`, one alone is there when the file has been imported.
    covered = {target.name for target in reading.targets if target.directives}
    # What objects of a module hold is called by the module, which is run for it and reports missing inputs.
    modules = {target.name for target in reading.targets if target.kind == "module"}
    covered |= {target.name for target in reading.targets if target.attribute_of in modules}
    # A call of a module calls its `forward`.
    covered |= {f"{name}.forward" for name in modules & covered}
    covered |= {target.name for target in reading.targets if target.maker in covered}
    broken = {problem.span.line for problem in reading.directive_problems}
    most = None if hints is None else len(out) + hints
    for target in reading.targets:
        if len(out) == most:
            break
        given = reading.main_line is not None or (reading.provider is not None and target.maker is None)
        if (
            not target.compiled
            or target.name in covered
            or target.name in answered
            or given
            or reading.serving(target) is not None
            # An unreadable directive is just above: that one has to be corrected first.
            or any(target.def_line - 10 <= line < target.def_line for line in broken)
        ):
            continue
        covered.add(target.name)
        out.append(
            _made_inside(reading, target, target.maker, example)
            if target.maker
            else _without_inputs(target, example)
        )
    return tuple(out)


def _directive_finding(problem: DirectiveProblem) -> Finding:
    moves = problem.move_above is not None
    return _finding(
        "FL501",
        problem.span,
        title=problem.message,
        message=compose(hints=(_DIRECTIVE_PLACE if moves else _DIRECTIVE_HELP,)),
        fixes=("move_directive",) if moves else (),
        data=(("above", str(problem.move_above)),) if moves else (),
    )


def _without_inputs(target: StaticTarget, example: Callable[[StaticTarget], str]) -> Finding:
    return _no_inputs(target, target, tuple(hint.format(example(target)) for hint in _NO_INPUTS_HINTS))


def _made_inside(
    reading: Reading, target: StaticTarget, outer: str, example: Callable[[StaticTarget], str]
) -> Finding:
    """For what a function makes inside: no call from outside gets at it, so it is that function that wants one."""
    maker = next((static_target for static_target in reading.targets if static_target.name == outer), None)
    call = example(maker) if maker else f"{outer}()"
    hints = (
        f"`{outer}` creates it: write an example call above `{outer}`, such as `# fuselight: {call}`",
        'Or call it under `if __name__ == "__main__":`, or run the program once with `fuselight run`',
    )
    return _no_inputs(target, maker, hints)


def _no_inputs(target: StaticTarget, called: StaticTarget | None, hints: tuple[str, ...]) -> Finding:
    message = compose(
        "Fuselight needs example inputs, because torch.compile traces a real call.", hints=hints
    )
    return _finding(
        "FL502",
        target.name_span,
        title=f"no example inputs for `{format_target(target.name)}`",
        message=message,
        target=target.name,
        remedies=advice(hints),
        fixes=("insert_inputs",) if called else (),
        data=(("target", called.name),) if called else (),
    )


_DIRECTIVE_PLACE = "Put the directive on its own line above the `def`, `class` or assignment that it calls"
_DIRECTIVE_HELP = (
    "Write a directive as a Python call: `Net(dim=64)(f32[4, 128])` or `step(i64[8] % 100, scale=0.5)`"
)


def after_capture(_path: str, origin: Origin) -> bool:
    """Say of each file that a capture of it has ended, and nothing else."""
    return origin in _OF_CAPTURE


def nothing_ran(_path: str, _origin: Origin) -> bool:
    """Say of each file that nothing ran: no comment is unused."""
    return False


_OF_CAPTURE = frozenset({Origin.SOURCE, Origin.CAPTURE})


def apply_ignores(
    findings: Iterable[Finding], readings: Mapping[str, Reading], *, has_run: HasRun = after_capture
) -> tuple[Finding, ...]:
    """Drop what an ignore comment on the line silences; an ignore that silences nothing is FL503.

    On the line of the full finding of a cause (findings/causes.py) it silences the cause at all places, on another line
    of the cause that place alone. `findings` are not folded yet.
    `has_run` says of a file whether what finds the codes of an origin has run: an ignore of a code whose origin has not
    is never reported as unused.
    """
    used: dict[tuple[str, int], set[str]] = {}
    kept = []
    for group in group_by_cause(findings):
        ignores = [_ignore_on(readings.get(finding.span.path), finding) for finding in group]
        for finding, ignore in zip(group, ignores, strict=True):
            if ignore is not None:
                used.setdefault((finding.span.path, ignore.span.line), set()).add(finding.code)
            elif ignores[0] is None:
                kept.append(finding)
    for path, reading in readings.items():
        for ignore in reading.ignores:
            silenced = used.get((path, ignore.span.line), set())
            idle = [
                code
                for code in ignore.codes
                if code not in silenced and has_run(path, catalogue.origin(code))
            ]
            if idle or (not ignore.codes and not silenced and has_run(path, Origin.CAPTURE)):
                kept.append(_idle(ignore, idle))
    return tuple(kept)


def _ignore_on(reading: Reading | None, finding: Finding) -> Ignore | None:
    if reading is None:
        return None
    last = finding.span.end_line or finding.span.line
    for ignore in reading.ignores:
        on = finding.span.line <= ignore.span.line <= last
        if on and (not ignore.codes or finding.code in ignore.codes):
            return ignore
    return None


def _idle(ignore: Ignore, idle: list[str]) -> Finding:
    what = format_list(idle) if idle else "any finding"
    return _finding(
        "FL503",
        ignore.span,
        title=f"unused ignore comment: no {what} on this line",
        message=compose(hints=("Remove it, because it would hide a later finding",)),
        fixes=("remove_ignore",),
        data=tuple(("code", code) for code in idle),
    )


def _finding(code: str, span: Span, *, title: str, message: str, target: str = "", **more: Any) -> Finding:
    return Finding(
        code=code,
        severity=catalogue.severity(code),
        title=title,
        message=message,
        span=span,
        tier=Tier.STATIC,
        target=target,
        inputs="",
        torch="",
        link=catalogue.link(code),
        **more,
    )
