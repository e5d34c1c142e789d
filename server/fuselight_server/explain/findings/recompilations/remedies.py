"""What to do about a recompilation: the advice for each failed guard, chosen by all that the report knows of it.

Invariant: what a library offers comes first, then what keeps a value from being dynamic, then the advice for the kind
of change.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight.shared.report import CallCure, CureKind, GuardCause, GuardFailure, Recompile, StaticSizes
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice
from fuselight_server.explain.findings.advice.advice import best_first, tried_remedies, worded
from fuselight_server.explain.findings.advice.break_cures import SETTINGS
from fuselight_server.explain.findings.advice.cures import cures_for
from fuselight_server.explain.findings.advice.expectations import (
    CARRIED,
    NOT_TRIED,
    expectation,
    fixed_by_torch,
    is_calculated,
    is_of_object,
)
from fuselight_server.explain.findings.advice.trial_verdict import removed_breaks, trials_of
from fuselight_server.explain.findings.common.carried_values import CARRIED_VALUE
from fuselight_server.explain.findings.common.function_roles import for_role
from fuselight_server.explain.findings.common.library_remedies import is_new_state, library_remedy
from fuselight_server.explain.findings.common.number_uses import fixing_call, needs_number, without_fixing
from fuselight_server.explain.findings.common.resume_functions import (
    is_other_class,
    nearest,
    resumed_at,
    resumption_of,
)
from fuselight_server.explain.findings.common.source_tree import (
    function_tree,
)
from fuselight_server.explain.findings.common.text import quoted
from fuselight_server.explain.findings.common.value_writes import write_of
from fuselight_server.explain.findings.recompilations.broken_results import result_step
from fuselight_server.explain.findings.recompilations.changed_containers import (
    changed_container,
    container_step,
    filled_container,
    growing_container,
)
from fuselight_server.explain.findings.recompilations.changed_values import (
    changed_names,
    changed_values,
    changes_first,
    move_out,
)
from fuselight_server.explain.findings.recompilations.compared_objects import of_objects
from fuselight_server.explain.findings.recompilations.expected_versions import (
    differing,
    in_total,
    of_free_values,
)
from fuselight_server.explain.findings.recompilations.filled_caches import of_filled_cache
from fuselight_server.explain.findings.recompilations.indices import index_step
from fuselight_server.explain.findings.recompilations.number_tables import table_changes
from fuselight_server.explain.findings.recompilations.own_state import (
    names_of,
    state_step,
)
from fuselight_server.explain.findings.recompilations.python_values import outside_step
from fuselight_server.explain.findings.recompilations.relation_words import expected_outcomes
from fuselight_server.explain.findings.recompilations.size_remedies import (
    branch_on_size,
    is_small_alone,
    size_remedy,
    small_size,
    starts_small,
    varying_sizes,
)
from fuselight_server.explain.findings.recompilations.specializations import (
    fixing_line,
    is_held,
    is_unguarded,
    made_dynamic,
    stays_fixed,
    waits_for,
)
from fuselight_server.explain.findings.recompilations.value_remedies import value_remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from fuselight_server.explain.findings.advice.advice import TriedAdvice
    from fuselight_server.explain.findings.common.context import Context

_MAX_CAUSES = 3
"""Causes that get advice in one finding."""
_ROOT = re.compile(r"[^\W\d]\w*(?=[.\[]|$)")
_ROOTS = (GuardCause.GLOBAL_STATE, GuardCause.CLASS)
"""Causes that make other guards fail: the first one that occurs is what to report."""


def root_failures(context: Context, recompilation: Recompile) -> tuple[GuardFailure, ...]:
    """The failed guards, those first that explain others: a setting of torch, a class, the size of a parameter.

    An object of another class explains all others. The state that an optimizer creates in its first step is first as
    well: whatever else differs, that call compiles again.
    """
    failures = nearest(recompilation)
    for cause in _ROOTS:
        guard_failures = tuple(failure for failure in failures if failure.cause is cause)
        if guard_failures:
            return guard_failures
    other_class = tuple(filter(is_other_class, failures))
    if other_class:
        return other_class
    new_state = tuple(failure for failure in failures if is_new_state(failure, recompilation.location))
    if new_state:
        return new_state
    state = tuple(
        failure
        for failure in failures
        if failure.static is not None and failure.cause is GuardCause.DIMENSION
    )
    if given := _inputs_of_other_sizes(recompilation, state):
        state = (*given, *state)
    rest = [failure for failure in failures if failure not in state]
    # A relation between values says less than a value that changed, and a stride mostly follows from one. What torch
    # does not guard any longer costs no further compile: what stays fixed is the cause.
    rest.sort(
        key=lambda failure: (
            failure.cause is GuardCause.STRIDE,
            not stays_fixed(context, recompilation, failure),
            failure.cause is GuardCause.RELATION,
        )
    )
    if state_step(context, recompilation) is not None:
        rest.sort(key=lambda failure: not any(names_of(context, recompilation, failure)))
    return (*state, *changes_first(context, recompilation, rest))


def _inputs_of_other_sizes(
    recompilation: Recompile, state: tuple[GuardFailure, ...]
) -> tuple[GuardFailure, ...]:
    """The inputs whose sizes changed with those of the object's own tensors, if torch's first failed guard is on one.

    They are what the user passes, as the channels of the input of a block with other channels.
    """
    if not state or not recompilation.entries or not all(map(is_of_object, state)):
        return ()
    reasons = (
        reason
        for reason in recompilation.reasons
        if reason.startswith(f"{recompilation.entries[0].compile_id}: ")
    )
    first = next(reasons, "")
    given = tuple(
        failure
        for failure in nearest(recompilation)
        if failure.cause is GuardCause.DIMENSION and failure.static is None and not is_of_object(failure)
    )
    return given if any(f"tensor '{failure.source}'" in first for failure in given) else ()


def held_by(recompilation: Recompile, failure: GuardFailure) -> GuardFailure:
    """The failure whose remedy is that of a failure too: the size of an input is fixed by the object's own tensors."""
    if failure.cause is not GuardCause.DIMENSION or failure.static is not None:
        return failure
    state = (
        other
        for other in nearest(recompilation)
        if other.cause is GuardCause.DIMENSION and other.static is not None and is_of_object(other)
    )
    sizes = {(size.was, size.now) for size in failure.sizes}
    same = (other for other in state if not sizes.isdisjoint((size.was, size.now) for size in other.sizes))
    return next(same, failure)


def remedies_of(
    context: Context,
    recompilation: Recompile,
    shown: GuardFailure,
    explained: Collection[GuardFailure] = (),
) -> tuple[FindingRemedy, ...]:
    """The remedies for the failure that is shown, then the best for each other cause that no other finding reports."""
    out: list[FindingRemedy] = []
    causes: list[GuardCause] = []
    is_free = set(made_dynamic(context, recompilation, nearest(recompilation)))
    shown = held_by(recompilation, shown)
    others = () if is_other_class(shown) else nearest(recompilation)  # all of them follow from the class
    changed = changed_values(context, recompilation)
    if shown in changed:
        explained = (*explained, *changed)  # one change of the code for all of them
    for item in (shown, *(other for other in others if other not in (shown, *explained))):
        cause = item.cause
        if cause in causes:
            out += _cures_beside(context, recompilation, item, out)
            continue
        if len(causes) == _MAX_CAUSES or not set(_ROOTS).isdisjoint(causes):
            continue
        if item is not shown and (item.source in is_free or is_unguarded(context, recompilation, item)):
            out += _cures_beside(context, recompilation, item, out)
            continue  # no later call compiles again for it
        if item is not shown and cause is GuardCause.VALUE and _is_of_same_set(shown, item):
            continue
        causes.append(cause)
        remedies = remedies_for(context, recompilation, item)
        if item is shown:
            out += remedies
        elif remedies and remedies[0].state is not RemedyState.REFUSED:
            is_known = any(
                known.text == remedies[0].text or (known.cure is not None and known.cure == remedies[0].cure)
                for known in out
            )
            out += () if is_known else (_named(item, remedies[0]),)
    return tuple(_without_name(context, remedy) for remedy in dict.fromkeys(best_first(out)))


def _without_name(context: Context, remedy: FindingRemedy) -> FindingRemedy:
    """The remedy; one that leaves the first compile alone is for all of the values."""
    trial = context.trials.get(remedy.cure) if remedy.cure and remedy.state is RemedyState.TRIED else None
    return replace(remedy, about="") if trial is not None and trial.leaves_one else remedy


def _is_of_same_set(shown: GuardFailure, other: GuardFailure) -> bool:
    """Whether a guard on a whole set fails with that on an element of it, which the advice is about."""
    return shown.cause is GuardCause.KEYS and bool(other.source) and shown.source == other.source


def later_remedies(
    context: Context, recompilation: Recompile, failure: GuardFailure
) -> tuple[FindingRemedy, ...]:
    """What to do about a guard that failed only in a later recompilation of a finding, with the name of its value."""
    if state_step(context, recompilation) is not None and any(names_of(context, recompilation, failure)):
        return ()
    changed = changed_values(context, recompilation)
    remedies = advice(
        _of_code(context, recompilation, failure)
        or (move_out(context, changed) if failure in changed else ())
        or _for_role(
            context, failure, outside_step(context, failure) or expected(context, recompilation, failure)
        )
    )
    return tuple(_named(failure, remedy) for remedy in remedies[:1])


def _named(failure: GuardFailure, remedy: FindingRemedy) -> FindingRemedy:
    """A remedy for another value than that of the finding, which it names."""
    is_named = re.search(rf"(?<![\w.]){re.escape(failure.source)}(?!\w)", remedy.text)
    return remedy if is_named else replace(remedy, about=quoted(failure.source))


def remedies_for(
    context: Context, recompilation: Recompile, failure: GuardFailure
) -> tuple[FindingRemedy, ...]:
    """What to do about one failed guard: what is certain, else what was tried and cures, else what to expect."""
    changed = changed_values(context, recompilation)
    moved = move_out(context, changed) if failure in changed else ()
    is_together = bool(moved) and len(changed_names(changed)) > 1
    step = state_step(context, recompilation)
    if step is not None and (
        any(names_of(context, recompilation, failure))
        or branch_on_size(context, recompilation, failure) == step.line
    ):
        trials = trials_of(context, recompilation, failure)
        return (
            *advice((*of_filled_cache(context, failure), step.text)),
            *tried_remedies(candidates_for(context, recompilation, failure), trials),
        )
    write = write_of(context, recompilation, failure)
    is_assigned = write is not None and not write.by_scheduler
    certain = (
        library_remedy(failure, recompilation.location, is_assigned=is_assigned)
        or size_remedy(context, recompilation, failure)
        or value_remedy(context, recompilation, failure)
    )
    removed = removed_breaks(context, recompilation, failure)
    if certain and not removed:
        return advice(_for_role(context, failure, certain))
    trials = trials_of(context, recompilation, failure)
    alone = tried_remedies(candidates_for(context, recompilation, failure), trials)
    tried = tuple(best_first((*removed, *alone)))
    is_cured = bool(tried) and tried[0].state is RemedyState.TRIED
    is_of_first = is_cured and tried[0].kind == CureKind.FIRST_CALL.value
    of_code = () if is_together or is_of_first else _of_code(context, recompilation, failure)
    if of_code:
        return advice(of_code)
    if is_cured:
        return tried
    if moved:
        return (*advice(moved), *tried)
    is_part = resumed_at(context, recompilation) is not None
    outside = () if is_part else outside_step(context, failure)
    steps = outside or expected(context, recompilation, failure)
    return (*advice(_for_role(context, failure, steps)), *tried)


def _cures_beside(
    context: Context, recompilation: Recompile, failure: GuardFailure, known: Iterable[FindingRemedy]
) -> tuple[FindingRemedy, ...]:
    """What cures by a change for another guard than that of the finding; one of its value names that."""
    cures = {remedy.cure for remedy in known}
    others = (item for item in candidates_for(context, recompilation, failure) if item.cure not in cures)
    tried = tried_remedies(others, trials_of(context, recompilation, failure))
    cured = (remedy for remedy in tried if remedy.state is RemedyState.TRIED)
    return tuple(_named(failure, item) if item.cure and item.cure.subjects else item for item in cured)


def candidates_for(
    context: Context, recompilation: Recompile, failure: GuardFailure
) -> tuple[TriedAdvice, ...]:
    """The changes for one failed guard; what a graph break carried over, no call can change."""
    if _is_of_python(context, recompilation, failure):
        return ()
    is_alone = is_small_alone(context, recompilation, failure)
    is_part = resumed_at(context, recompilation) is not None
    arguments = _arguments(context, recompilation) if is_part else None
    own = cures_for(context, recompilation, failure, arguments=arguments)
    doubted = (
        replace(item, is_doubtful=_speaks_against(context, recompilation, failure, item.cure))
        for item in own
        if not is_alone or item.cure.kind is CureKind.UNBACKED
    )
    return (*doubted, *(() if is_part else table_changes(context, recompilation, failure)))


def _speaks_against(
    context: Context, recompilation: Recompile, failure: GuardFailure, cure: CallCure
) -> bool:
    """Whether the source, or what torch did in the run, shows that a change hardly helps, or fails."""
    if cure.kind is CureKind.TENSOR:
        return needs_number(context, failure)
    is_fixed = fixing_line(context, recompilation, failure) is not None
    if cure.kind is CureKind.MARK:
        return is_fixed  # torch raises an exception for a marked size that a line needs
    is_free = bool(made_dynamic(context, recompilation, [failure]))
    is_attribute = failure.cause is GuardCause.NUMBER and failure.source.startswith("self.")
    if cure.kind is CureKind.DYNAMIC and cure.value == "True":
        return not is_free and (is_fixed or is_attribute)
    # torch keeps the integers of a module fixed, and those of other objects not: no setting concerns these.
    return "allow_unspec_int_on_nn_module" in cure.settings and is_attribute and is_free


def _arguments(context: Context, recompilation: Recompile) -> tuple[str, ...]:
    """The names of the function's parameters."""
    frames = (
        frame.parameters
        for frame in context.report.frames
        if (frame.function, frame.location) == (recompilation.function, recompilation.location)
    )
    return next(frames, ())


def cures_of(
    context: Context,
    recompilation: Recompile,
    shown: GuardFailure | None,
    explained: Collection[GuardFailure],
) -> tuple[CallCure, ...]:
    """The changes to try for the guards that the hints are about, each once, those last that hardly help."""
    failures = (
        ()
        if shown is None
        else (shown, *(other for other in nearest(recompilation) if other not in explained))
    )
    candidates = [item for failure in failures for item in candidates_for(context, recompilation, failure)]
    candidates.sort(key=lambda item: item.is_doubtful)
    return worded(candidates)


def _of_code(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """The advice for a container that the code which reads it changes."""
    steps = growing_container(context, recompilation, failure) or _of_changed(context, recompilation, failure)
    return _for_role(context, failure, steps)


def _for_role(context: Context, failure: GuardFailure, steps: tuple[str, ...]) -> tuple[str, ...]:
    return for_role(context, context.innermost_user_frame(failure.born), steps, failure.born)


def _of_changed(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    owner = changed_container(context, recompilation, failure)
    return (container_step(context, failure, owner),) if owner else filled_container(context, failure)


def expected(context: Context, recompilation: Recompile, failure: GuardFailure) -> tuple[str, ...]:
    """What to expect of a failed guard that nothing is known to cure."""
    if small := small_size(failure):
        return small
    line = resumed_at(context, recompilation)
    if line is not None and failure.cause is GuardCause.DELETED and CARRIED in failure.code:
        waits = f"the value that waits for the graph break on line {line} is created again in each call"
        return (f"Expect one compile for each call: {waits}",)
    if not stays_fixed(context, recompilation, failure) and failure.cause in _VARYING:
        return (of_free_values(context, recompilation),)
    if _is_of_python(context, recompilation, failure):
        is_fixed = failure.cause is GuardCause.VALUE or is_held(context, recompilation, failure)
        if not is_fixed:
            return (differing(context, recompilation),)
        broke = next(iter(failure.born), None)
        return (result_step(context, broke, fixing_line(context, recompilation, failure)),)
    is_other = bool(recompilation.entries) and recompilation.entries[0].other_object
    texts = index_step(context, failure) or expectation(failure, other_object=is_other)
    if words := expected_outcomes(context, recompilation, failure) or waits_for(
        context, recompilation, failure
    ):
        texts = (words,)
    texts = (*texts, *_without_fixing(context, failure))
    of_values = tuple(in_total(context, recompilation, failure, texts))
    return of_objects(context, recompilation, failure) or (*of_filled_cache(context, failure), *of_values)


def _without_fixing(context: Context, failure: GuardFailure) -> tuple[str, ...]:
    """What keeps an int dynamic: as an argument, and without the function of Python that fixes it."""
    is_global = failure.cause is GuardCause.NUMBER and failure.expression.startswith("G[")
    numbers = f"{failure.was}{failure.now}".isdecimal()
    call = fixing_call(context, failure) if is_calculated(failure) or (is_global and numbers) else None
    instead = without_fixing(call) if call is not None else ""
    if call is None or not is_global:
        as_argument = f"Or pass {quoted(failure.source)} as an argument: {_KEEPS_INTS}"
        first = (
            f"{instead[:1].upper()}{instead[1:]}: torch then calculates with the dynamic number. {NOT_TRIED}"
        )
        return (as_argument,) if is_global and numbers else (first,) if instead else ()
    passed = f"Or pass {quoted(failure.source)} as an argument"
    return (f"{passed}, and {instead}: {_KEEPS_INTS}",) if instead else ()


_KEEPS_INTS = "torch keeps an int argument dynamic from its second value on"
_VARYING = frozenset({GuardCause.NUMBER, GuardCause.VALUE, GuardCause.DIMENSION})
"""Changes after which torch may keep what changed symbolic; that of a type or a rank, it compiles for."""


def _is_of_python(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a break that no setting for numbers removes made the value: no graph can hold what computes it."""
    after, carried = resumption_of(context, recompilation), CARRIED_VALUE.search(failure.code)
    if after is None or after.broke is None or carried is None or after.carried != int(carried[1]) + 1:
        return False  # what waits for the result of the line that broke is not what broke
    is_value = failure.cause in {GuardCause.NUMBER, GuardCause.VALUE}
    return is_value and SETTINGS.keys().isdisjoint(after.broke.ids)


def _may_go(failure: GuardFailure) -> bool:
    return failure.static is not StaticSizes.STATE and not fixed_by_torch(failure)


def is_made_by_the_function(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a function assigns the value itself, or a graph break carries it: no caller and no global gives it."""
    if not _may_go(failure) or small_size(failure):
        return False
    if CARRIED in failure.code:
        return True
    if _is_left_by_calls(context, recompilation, failure):
        return False
    name, tree = _ROOT.match(failure.source), function_tree(context.read_line, recompilation.location)
    return name is not None and any(
        isinstance(node, ast.Name) and node.id == name[0] and isinstance(node.ctx, ast.Store)
        for node in ast.walk(tree or ast.Module([], []))
    )


def _is_left_by_calls(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a global has what earlier calls left in it: `n += 1` and `n = n + 1` count on, and no line sets it."""
    root, tree = _ROOT.match(failure.source), function_tree(context.read_line, recompilation.location)
    if root is None or tree is None or not failure.expression.startswith("G["):
        return False
    nodes, counted = list(ast.walk(tree)), set[ast.expr]()
    for node in nodes:
        if isinstance(node, ast.AugAssign):
            counted.add(node.target)
        elif isinstance(node, ast.Assign):
            read = {ast.unparse(part) for part in ast.walk(node.value) if isinstance(part, ast.expr)}
            counted.update(target for target in node.targets if ast.unparse(target) in read)
    stored = (
        node
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store)
    )
    return all(node in counted or ast.unparse(node) not in {root[0], failure.source} for node in stored)


def unmarked_sizes(
    context: Context, recompilation: Recompile, *failures: GuardFailure
) -> frozenset[tuple[str, int]]:
    """The sizes that were 0 or 1 at the first compile: a mark does not help."""
    return frozenset(size for size in varying_sizes(*failures) if starts_small(context, recompilation, size))


def other_sizes(context: Context, recompilation: Recompile, shown: GuardFailure) -> tuple[GuardFailure, ...]:
    """The sizes that changed with the one that is shown, less those that something keeps fixed."""
    return tuple(
        other
        for other in nearest(recompilation)
        if other is not shown
        and other.cause is GuardCause.DIMENSION
        and other.static is None
        and not is_held(context, recompilation, other)
    )


def is_of_other_object(recompilation: Recompile, failures: Collection[GuardFailure]) -> bool:
    """Whether nothing but another object of the class, with other sizes or parts, made the guards fail."""
    if not recompilation.entries or not recompilation.entries[0].other_object:
        return False
    sizes = {(size.was, size.now) for failure in failures if is_of_object(failure) for size in failure.sizes}
    own = [
        failure
        for failure in failures
        if not failure.sizes
        or not {(size.was, size.now) for size in failure.sizes} <= sizes
        or is_of_object(failure)
    ]  # an input has the size that the object's own tensors have
    return bool(own) and all(
        is_of_object(failure) and failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE, GuardCause.CLASS}
        for failure in own
    )
