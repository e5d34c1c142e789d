"""The recompilations of a report in groups: what one finding is about, and how many it counts.

Invariant: each recompilation is in exactly one group, and what several groups share is counted by the first of them, so
that the counts of the findings add up to that of the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fuselight.shared.report import GuardCause, GuardFailure, Location, Recompile
from fuselight_server.explain.findings.advice.expectations import CARRIED
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import (
    Root,
    break_at,
    in_the_users_words,
    resumed_at,
    roots,
)
from fuselight_server.explain.findings.recompilations.changed_containers import changed_container
from fuselight_server.explain.findings.recompilations.changed_values import changed_together
from fuselight_server.explain.findings.recompilations.guard_explanations import static_call
from fuselight_server.explain.findings.recompilations.own_state import family_of, names_of
from fuselight_server.explain.findings.recompilations.remedies import root_failures
from fuselight_server.explain.findings.recompilations.root_breaks import root_break
from fuselight_server.explain.findings.recompilations.shared_sizes import SharedSize, shared_sizes


@dataclass(frozen=True)
class RecompilationGroup:
    """The recompilations of one finding."""

    roots: list[Root]
    shared: SharedSize | None = None
    """The size that varies in other groups, too."""

    @property
    def is_first(self) -> bool:
        """Whether no earlier group has the same cause."""
        return self.shared is None or self.shared.groups[0] is self.roots

    @property
    def own(self) -> list[Recompile]:
        """The recompilations of the function, of its parts and of its decorators."""
        return _recompilations([self.roots])

    @property
    def counted(self) -> list[Recompile]:
        """Those that the finding counts: of a cause that groups share, all in the first one."""
        return _recompilations(self.shared.groups) if self.shared and self.is_first else self.own


def _recompilations(groups: list[list[Root]]) -> list[Recompile]:
    roots = (root for group in groups for root in group)
    return [item for root in roots for item in (root.recompile, *root.parts, *root.wrappers)]


def recompilation_groups(context: Context) -> list[RecompilationGroup]:
    """The groups of a report, without what a limit stopped."""
    groups: dict[tuple[object, ...], list[Root]] = {}
    worded = (
        in_the_users_words(context, recompilation)
        for recompilation in context.report.recompiles
        if recompilation.compile_id is not None
    )
    for root in roots(context, worded):
        groups.setdefault(_key(context, root.recompile), []).append(root)
    shared = {id(group): cause for cause in shared_sizes(context, groups.values()) for group in cause.groups}
    return [RecompilationGroup(group, shared.get(id(group))) for group in groups.values()]


def _key(context: Context, recompilation: Recompile) -> tuple[object, ...]:
    home, failure = read_place(context, recompilation)
    if key := _of_one_root(context, recompilation, failure):
        return key
    argument = argument_of(context, recompilation, failure)
    variable = _variable(failure) if failure is not None else ""
    cause = failure.cause if failure is not None else GuardCause.OTHER
    return (
        *_place_of(context, recompilation, failure, home),
        *((argument,) if argument else (variable, cause)),
    )


def finding_place(context: Context, recompilation: Recompile) -> Location:
    """The line of the finding for what differed: where its first version read the value that others read elsewhere."""
    key = _key(context, recompilation)
    groups = (group.roots[0].recompile for group in recompilation_groups(context))
    first = next((item for item in groups if _key(context, item) == key), recompilation)
    return birthplace(context, first)[0]


def recompile_seconds(context: Context, recompilations: Iterable[Recompile]) -> float:
    """How long recompilations took, as far as the report holds it."""
    compiles = (context.compile_of(recompilation.compile_id) for recompilation in recompilations)
    return sum(record.seconds or 0.0 for record in compiles if record is not None)


def birthplace(context: Context, recompilation: Recompile) -> tuple[Location, GuardFailure | None]:
    """The torch.compile whose dynamic=False causes a recompilation, or the read of the value; and the failing guard."""
    home, failure = read_place(context, recompilation)
    return static_call(context, recompilation, failure) or home, failure


def read_place(context: Context, recompilation: Recompile) -> tuple[Location, GuardFailure | None]:
    """Where in the workspace the failing guard was born, and the guard.

    Without such a place: the break before the part, the `def` line, the caller, the target.
    """
    failures = root_failures(context, recompilation)
    for failure in failures:
        home = context.reading_frame(failure.born)
        if home is not None:
            return home, failure
    line = resumed_at(context, recompilation)
    frame = break_at(context, recompilation, line) if line is not None else recompilation.location
    home = context.innermost_user_frame((frame,), recompilation.caller) or context.target_location()
    return home, next(iter(failures), None)


def _place_of(
    context: Context, recompilation: Recompile, failure: GuardFailure | None, home: Location
) -> tuple[object, ...]:
    """Where a guarded value is the same one: in all of a function for a value with a name, else on its line.

    A number that two lines read was a finding on each, as torch guards on the first read of each compile; so was a
    tensor with another number of dimensions. Of a function of a library, the lines are calls of the user's code, and
    each has its own.
    """
    is_named = failure is not None and failure.source and CARRIED not in f"{failure.source}{failure.code}"
    if failure is None or not is_named or failure.cause not in _OF_FUNCTION:
        return (home.path, home.line, home.column)
    code = recompilation.location
    if code.path != home.path:
        return (home.path, home.line, home.column)
    return (code.path, code.line, resumed_at(context, recompilation))


_OF_FUNCTION = frozenset(
    {
        *(GuardCause.NUMBER, GuardCause.VALUE, GuardCause.NONE, GuardCause.TYPE),
        *(GuardCause.RANK, GuardCause.DTYPE, GuardCause.DEVICE, GuardCause.REQUIRES_GRAD),
    }
)
"""Differences of a value that stay the same wherever a function reads it."""


def _of_one_root(
    context: Context, recompilation: Recompile, failure: GuardFailure | None
) -> tuple[object, ...]:
    """What recompilations of the same code share that follow from one break, or from one container that it changes.

    A running mean, its count and its maximum that are made of one `.item()` were a finding for each of them.
    """
    code = recompilation.location
    part = code.path, code.line, resumed_at(context, recompilation)
    is_state = failure is not None and any(names_of(context, recompilation, failure))
    if is_state and (family := family_of(context, recompilation)):
        return ("\0".join(sorted(family)), *part)
    owner = changed_container(context, recompilation, failure) if failure is not None else ""
    if owner := changed_together(context, recompilation) or owner:
        return (owner, *part)
    before = root_break(context, recompilation, failure)
    if before is None or before.is_inside:
        return ()
    return (before.at.path, before.at.line, *part)


def argument_of(context: Context, recompilation: Recompile, failure: GuardFailure | None) -> str:
    """The argument that a number or a flag is an attribute or an entry of, as `cfg` of `cfg.scale`; else empty.

    Callers pass another object, or change it: each of its values that differed was a finding with the same advice.
    """
    if failure is None or failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE}:
        return ""
    match = _PART_OF.fullmatch(failure.source)
    frames = (
        frame
        for frame in context.report.frames
        if (frame.function, frame.location) == (recompilation.function, recompilation.location)
    )
    names = {name for frame in frames for name in frame.parameters} - {"self"}
    return match["root"] if match is not None and match["root"] in names else ""


_PART_OF = re.compile(r"(?P<root>[^\W\d]\w*)(?:\.\w+|\['\w+'\])+")


def _variable(failure: GuardFailure) -> str:
    """What one line reads: the numbers of one list are one variable, whichever of them changed."""
    return _INDEX.sub("[]", failure.source) if failure.cause is GuardCause.NUMBER else failure.source


_INDEX = re.compile(r"\[\d+\](?=`|$)")
