"""The changes that may cure a recompilation, by the kind of guard that failed: data, each tried before it is advised.

Invariant: a table of kinds. No source is read and no library is known here: whether a change helps, its trial says.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from fuselight.shared.inputs import DTYPES
from fuselight.shared.report import CallCure, CureKind, GuardCause, StaticSizes
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.advice.advice import TriedAdvice, rounding
from fuselight_server.explain.findings.advice.duck_sizes import is_of_duck_sizing, without_duck_sizing
from fuselight_server.explain.findings.advice.expectations import (
    CARRIED,
    fixed_by_torch,
    is_of_array,
    is_of_object,
)
from fuselight_server.explain.findings.common.compiled_callers import (
    is_called_in_compiled_code,
    is_handed_on,
    outer_frame,
)
from fuselight_server.explain.findings.common.resume_functions import nearest
from fuselight_server.explain.findings.common.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from fuselight.shared.report import GuardFailure, Location, Recompile, SizeChange
    from fuselight_server.explain.findings.common.context import Context

_WHOLE = re.compile(r"-?\d+$")
_SWITCHES = frozenset({"True", "False"})
_NAMED = re.compile(r"(?:type\(self\)|[^\W\d]\w*)(?:\.[^\W\d]\w*|\[(?:\d+|'[^']*')\])*$")
_ANY_SIZE = "A call fails where code has to know the size, as whether it is 1"
_SLOWER = "Kernels for dynamic sizes can be slower"
_ROOT = re.compile(r"L\['(\w+)'\]|(\w+)")
_GLOBAL = "G"
_TENSOR_MATCH = "TENSOR_MATCH"
_WRAPPERS = ("args[", "kwargs[")
"""How the names begin of what a wrapper in a library passes on."""
_MAX_NAMED = 4
"""Sizes that are named one by one."""
_SMALL = frozenset({0, 1})
_SHORT_DTYPES = {name: short for short, name in DTYPES.items()}


def cures_for(
    context: Context,
    recompilation: Recompile,
    failure: GuardFailure,
    *,
    arguments: Collection[str] | None = None,
) -> tuple[TriedAdvice, ...]:
    """The changes to try for one failed guard, the most direct first; none where no change of the calls meets it.

    `arguments`: for a part of the function after a graph break, the names that its calls give a value.
    """
    cures = _CURES.get(failure.cause)
    whose = _whose(context, recompilation)
    case = _Case(context, recompilation, failure)
    changes = [*(cures(case) if cures is not None else ())]
    if (failure.cause in _MADE_ONCE or failure.was == "absent") and case.is_made_once:
        changes.append(case.first_call())
    candidates = tuple(dataclasses.replace(item, whose=whose) for item in changes)
    if arguments is None:
        return candidates
    known = {*arguments, _GLOBAL}
    return tuple(item for item in candidates if known.issuperset(map(_root, item.cure.subjects)))


def _whose(context: Context, recompilation: Recompile) -> str:
    """The function, where the program compiles several; with its parts after graph breaks, which are counted too."""
    places = [(frame.location.path, frame.location.line) for frame in context.report.frames]
    own = (recompilation.location.path, recompilation.location.line)
    if places.count(own) > 1:
        return f"{quoted(recompilation.function)} and its parts"
    return quoted(recompilation.function) if len(set(places)) > 1 else ""


def _root(subject: str) -> str:
    """The local variable that an expression starts with, as `x` of `L['x'].y`, or that it is global."""
    if subject.startswith("G["):
        return _GLOBAL
    match = _ROOT.match(subject)
    return "" if match is None else match[1] or match[2]


class _Case:
    """One failed guard, and how a change of it is named."""

    def __init__(self, context: Context, recompilation: Recompile, failure: GuardFailure) -> None:
        self.context, self.recompilation, self.failure = context, recompilation, failure
        self.outer = outer_frame(context.report, recompilation)

    @property
    def name(self) -> str:
        """The guarded value as the user writes it; empty if it has no such name."""
        name = self.failure.source
        is_users = self.context.is_user_file(self.recompilation.location.path)
        is_passed_on = name.startswith(CARRIED if is_users else (*_WRAPPERS, CARRIED))
        return name if _NAMED.match(name) and not is_passed_on else ""

    @property
    def is_reachable(self) -> bool:
        """Whether a user can change the value: it has a name, or the code that reads it is the user's."""
        return bool(self.name) or self.context.is_user_file(self.recompilation.location.path)

    @property
    def holds_no_tensors(self) -> bool:
        """Whether torch guards on elements of the value, and on none as on a tensor."""
        element = re.compile(rf"{re.escape(self.failure.source)}\[-?\d+\]$")
        place = self.recompilation.function, self.recompilation.location
        guards = (guard for compiled in self.context.compiles_of(*place) for guard in compiled.guards)
        kinds = {guard.kind for guard in guards if element.match(guard.source)}
        return bool(kinds) and _TENSOR_MATCH not in kinds

    @property
    def subject(self) -> str:
        return self.failure.expression or self.failure.source

    def cure(self, kind: CureKind, *subjects: str, value: str = "") -> CallCure:
        place = self.recompilation.location
        cure = CallCure(kind, place.path, place.line, subjects, value)
        if self.outer is None or not subjects:
            return cure
        outer = self.outer.location
        return dataclasses.replace(cure, outer_path=outer.path, outer_line=outer.line)

    @property
    def call(self) -> str:
        """Whose call changes, as `to step`, where that is not the function that was compiled again."""
        return (
            f" to {quoted(self.outer.function)}"
            if self.outer is not None and _is_passed(self, self.subject)
            else ""
        )

    def dynamic(self) -> TriedAdvice:
        return TriedAdvice(
            "Compile with torch.compile(..., dynamic=True)",
            self.cure(CureKind.DYNAMIC, value="True"),
            _SLOWER,
        )

    def first_call(self) -> TriedAdvice:
        place, failure = (self.outer or self.recompilation), self.failure
        is_filled = failure.cause in _FILLED
        name = failure.source if is_filled and failure.source else failure.difference.partition(" was ")[0]
        cure = dataclasses.replace(
            self.cure(CureKind.FIRST_CALL), outer_path=place.location.path, outer_line=place.location.line
        )
        verb = "filled" if is_filled else "made" if failure.was != "False" else "set"
        return TriedAdvice(
            (
                f"Call {quoted(place.function)} once in eager mode before its first compiled call, inside "
                f'torch.compiler.set_stance("force_eager"): {quoted(name)} is {verb} in the first call'
            ),
            cure,
        )

    @property
    def is_made_once(self) -> bool:
        """Whether the first call made the value, as a cached property or an entry of a cache, and none has changed it.

        It was absent at the first compile of the same object, and failed no guard of a later version. A value that the
        call passes is not made by the function.
        """
        failure, again = self.failure, self.recompilation
        was_absent = failure.was in _ABSENT or any(part in failure.difference for part in _WAS_ABSENT)
        is_passed = failure.cause in _GIVEN and _ARGUMENT.fullmatch(self.subject) is not None
        is_first = len(again.entries) == 1 and not again.entries[0].other_object
        if not was_absent or is_passed or not is_first or failure.is_new_state or CARRIED in failure.source:
            return False
        others = (
            item
            for item in self.context.report.recompiles
            if item.location == again.location and len(item.entries) > 1
        )
        return not any(
            self.subject in {other.expression, other.source} for item in others for other in nearest(item)
        )

    def setting(self, name: str, value: object, why: str) -> TriedAdvice:
        text = f"Set torch._dynamo.config.{name} = {value} before the first call{why}"
        return TriedAdvice(text, self.cure(CureKind.SETTING, value=json.dumps({name: value})))


_ABSENT = frozenset({"None", "absent", "False", "0", "empty"})
_ARGUMENT = re.compile(r"L\['\w+'\]|\w+")
_GIVEN = frozenset({GuardCause.NONE, GuardCause.VALUE})
"""How values differ that a call may pass."""
_FILLED = frozenset({GuardCause.KEYS, GuardCause.LENGTH})
_WAS_ABSENT = (" was not in ", " was empty")
"""What was no value at the first compile."""


def _of_number(case: _Case) -> Iterator[TriedAdvice]:
    failure = case.failure
    is_whole = all(_WHOLE.match(value or "") for value in (failure.was, failure.now))
    if case.subject and not case.subject.startswith(CARRIED) and case.is_reachable:
        yield _as_tensor(case)
    yield from _without_static(case)
    is_whole = is_whole and not _OF_CONTENT.search(failure.difference)
    if is_whole:
        yield case.dynamic()
    is_own = case.failure.source.startswith("self.")
    if is_whole and is_own and not is_of_plain_object(case.context, case.recompilation, failure):
        yield case.setting(
            "allow_unspec_int_on_nn_module", value=True, why=" (it keeps ints of modules dynamic)"
        )


def is_of_plain_object(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether torch names the guard of a number without the hint that it adds to one of a module's attribute."""
    again = (item for item in context.report.recompiles if item.location == recompilation.location)
    reasons = (_OF_METHOD.sub("self", line) for item in again for line in item.reasons)
    named = [line for line in reasons if f" {failure.source} == " in line]
    return bool(named) and not any(_OF_MODULE in line for line in named)


_OF_METHOD = re.compile(r"\b\w+\.__self__\b")
_OF_MODULE = "attributes of the nn.Module"
_OF_CONTENT = re.compile(r"\blen\(|\.(?:size\(|shape\[)")
"""How a number is named that is the size of an object: no setting for numbers concerns it."""


def _of_value(case: _Case) -> Iterator[TriedAdvice]:
    if case.subject and case.is_reachable and {case.failure.was, case.failure.now} == _SWITCHES:
        yield _as_tensor(case)


def _as_tensor(case: _Case) -> TriedAdvice:
    # Where the code branches on the value, or indexes with it, a tensor breaks the graph: only a trial can tell.
    cure = case.cure(CureKind.TENSOR, case.subject)
    return TriedAdvice(_tensor(case), cure, _rounding(case), needs_trial=True)


def _rounding(case: _Case) -> str:
    """What a float loses as a tensor of torch's default dtype; empty where no value of the run loses digits."""
    failures = (
        failure
        for recompilation in case.context.report.recompiles
        if recompilation.location == case.recompilation.location
        for entry in recompilation.entries
        for failure in entry.failures
        if (failure.source, failure.expression) == (case.failure.source, case.failure.expression)
    )
    return rounding(value for failure in failures for value in (failure.was, failure.now) if value)


def _is_passed(case: _Case, subject: str) -> bool:
    """Whether the call of the outer function gives the value."""
    outer = case.outer
    return outer is not None and is_handed_on(case.context, case.recompilation, outer, _root(subject))


def _tensor(case: _Case) -> str:
    frames = case.context.report.frames
    own = (frame.parameters for frame in frames if frame.location == case.recompilation.location)
    is_outer = any(
        given and case.name not in {"", *given} for given in own
    )  # a variable of a function around it
    is_kept = "." in case.name or "[" in case.name or _root(case.subject) == _GLOBAL or is_outer
    verb, whose = ("Keep", "") if is_kept else ("Pass", case.call)
    return f"{verb} {quoted(case.name) if case.name else 'this value'}{whose} as a tensor"


def _of_size(case: _Case) -> Iterator[TriedAdvice]:
    failure = case.failure
    if failure.static is StaticSizes.STATE:
        yield case.setting("force_parameter_static_shapes", value=False, why="")
        return
    environment = case.context.report.environment.config
    if "automatic_dynamic_shapes" in environment:
        yield case.setting("automatic_dynamic_shapes", value=True, why=", which is torch's default")
    yield from _without_static(case)
    sizes = list(_sizes_to_mark(case))
    if sizes and failure.static is None and _may_mark(case, sizes):
        yield _marks(case, sizes)
    # Alone, a size of 0 or 1 is expected to compile; beside a number, only both changes together save a compile.
    is_small = fixed_by_torch(failure) and any(
        other.cause is GuardCause.NUMBER for other in nearest(case.recompilation)
    )
    sizes = list(_sizes_to_mark(case, is_small=True)) if is_small else []
    if sizes and failure.static is None and _may_mark(case, sizes):
        yield _marks(case, sizes, is_small=True)
    if is_of_duck_sizing(case.context, case.recompilation, failure):
        yield without_duck_sizing(case.recompilation.location)
    yield case.dynamic()


def _without_static(case: _Case) -> Iterator[TriedAdvice]:
    """Without `dynamic=False`, torch keeps sizes and numbers symbolic that have varied."""
    if case.context.report.static_compiles:
        lines = format_list([_short(place, case) for place in case.context.report.static_compiles])
        text = f"Remove dynamic=False from torch.compile ({lines})"
        yield TriedAdvice(text, case.cure(CureKind.DYNAMIC, value="None"))


def _short(place: Location, case: _Case) -> str:
    is_here = place.path == case.recompilation.location.path
    return f"line {place.line}" if is_here else f"{PurePath(place.path).name}:{place.line}"


def _sizes_to_mark(case: _Case, *, is_small: bool = False) -> Iterator[SizeChange]:
    """The sizes that changed together, each once, and that no break carried over.

    Those that were 0 or 1 at the compile need another mark.
    """
    seen = set()
    for other in dict.fromkeys((*nearest(case.recompilation), case.failure)):
        can_mark = other.cause is GuardCause.DIMENSION and other.static is None and not is_of_array(other)
        for size in other.sizes if can_mark else ():
            is_known = (size.name, size.dimension) in seen
            if not is_known and not size.name.startswith(CARRIED) and (is_small or size.was not in _SMALL):
                seen.add((size.name, size.dimension))
                yield size


def _may_mark(case: _Case, sizes: Iterable[SizeChange]) -> bool:
    """Whether the sizes can be marked outside of compiled code: torch refuses a mark inside it."""
    is_inside = is_called_in_compiled_code(case.context.report, case.recompilation)
    return not is_inside or all(_is_passed(case, size.name) for size in sizes)


def _marks(case: _Case, sizes: Iterable[SizeChange], *, is_small: bool = False) -> TriedAdvice:
    sizes = tuple(sizes)
    mark = f"torch._dynamo.{'decorators.mark_unbacked' if is_small else 'mark_dynamic'}"
    names = [size.name for size in sizes]
    is_users = case.context.is_user_file(case.recompilation.location.path)
    is_named = all(_NAMED.match(name) and not name.startswith(_WRAPPERS) for name in names)
    if len(sizes) > _MAX_NAMED:
        text = f"Mark {_grouped(sizes)} as dynamic before the call{case.call}, with {mark}"
    elif is_users and is_named:
        calls = ", ".join(f"{mark}({size.name}, {size.dimension})" for size in sizes)
        which, it = ("size", "it") if len(sizes) == 1 else ("sizes", "them")
        when = f"each call{case.call} that has {it}" if _may_lack(case, names) else f"the call{case.call}"
        text = f"Mark the {which} as dynamic before {when}: {calls}"
    else:
        dimensions = ", ".join(dict.fromkeys(str(size.dimension) for size in sizes))
        passed = format_list([quoted(name) for name in dict.fromkeys(names)])
        text = f"Mark dimension {dimensions} of what is passed as {passed} with {mark}"
    subjects = (f"{size.name}.size({size.dimension})" for size in sizes)
    if is_small:
        return TriedAdvice(text, case.cure(CureKind.UNBACKED, *subjects), _ANY_SIZE)
    return TriedAdvice(text, case.cure(CureKind.MARK, *subjects), _SLOWER)


def _may_lack(case: _Case, names: Collection[str]) -> bool:
    """Whether some calls may not have a tensor: an entry or an attribute, or an argument that was None in the run."""
    return not all(map(str.isidentifier, names)) or any(
        failure.source in names and "None" in {failure.was, failure.now}
        for again in case.context.report.recompiles
        for entry in again.entries
        for failure in entry.failures
    )


def _grouped(sizes: Iterable[SizeChange]) -> str:
    """Many sizes in few words, as `dimensions 2 and 3 of 8 tensors in ``features```."""
    dimensions: dict[str, list[str]] = {}
    for size in sizes:
        dimensions.setdefault(size.name, []).append(str(size.dimension))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, changed in dimensions.items():
        groups.setdefault((_ELEMENT.sub("", name), *changed), []).append(name)
    return format_list(
        [
            f"dimension{'s' if len(changed) > 1 else ''} {format_list(changed)} of "
            + (quoted(names[0]) if len(names) == 1 else f"{len(names)} tensors in {quoted(owner)}")
            for (owner, *changed), names in groups.items()
        ]
    )


_ELEMENT = re.compile(r"\[[^\[\]]*\]$")


def _of_dtype(case: _Case) -> Iterator[TriedAdvice]:
    was = (case.failure.was or "").removeprefix("torch.")
    short = _SHORT_DTYPES.get(was)
    if short is not None and case.name:
        text = f"Convert {quoted(case.name)} before the call: {case.name}.to(torch.{was})"
        yield TriedAdvice(
            text, case.cure(CureKind.DTYPE, case.subject, value=short), "This changes the results"
        )


def _of_stride(case: _Case) -> Iterator[TriedAdvice]:
    if case.name:
        text = f"Pass {quoted(case.name)} with contiguous memory: {case.name}.contiguous()"
        yield TriedAdvice(
            text,
            case.cure(CureKind.CONTIGUOUS, case.subject),
            "It copies tensors that are not",
            needs_trial=True,
        )


def _of_length(case: _Case) -> Iterator[TriedAdvice]:
    if case.name and not case.holds_no_tensors:
        text = f"Stack the tensors in {quoted(case.name)} into one tensor before the call"
        yield TriedAdvice(text, case.cure(CureKind.STACK, case.subject))


def _of_dispatch(case: _Case) -> Iterator[TriedAdvice]:
    if case.name and {case.failure.was, case.failure.now} == _MODES and not is_of_object(case.failure):
        name = quoted(case.name)
        text = f"Create {name} inside torch.inference_mode() each time"
        cost = f"A gradient cannot flow through {name} then"
        yield TriedAdvice(text, case.cure(CureKind.INFERENCE, case.subject), cost)


_MODES = frozenset({"a normal tensor", "an inference tensor"})


_MADE_ONCE = frozenset({*_FILLED, GuardCause.NONE, GuardCause.MISSING, GuardCause.VALUE})
"""Differences of what a first call makes: an attribute, an entry of a cache, a flag that says so."""
_CURES: dict[GuardCause, Callable[[_Case], Iterator[TriedAdvice]]] = {
    GuardCause.NUMBER: _of_number,
    GuardCause.VALUE: _of_value,
    GuardCause.DIMENSION: _of_size,
    GuardCause.RELATION: _of_size,
    GuardCause.DTYPE: _of_dtype,
    GuardCause.STRIDE: _of_stride,
    GuardCause.LENGTH: _of_length,
    GuardCause.DISPATCH: _of_dispatch,
}
