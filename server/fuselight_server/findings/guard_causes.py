"""The advice for each kind of change that made a guard fail.

Invariant: the kind comes from the report, never from the user's source; for a guard of an unknown kind the advice is to
look at the values shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuselight.report import GuardCause
from fuselight_server.findings.text import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from fuselight.report import GuardFailure


CARRIED = "___stack"
"""How the names begin of values on Python's stack when compiled code resumes after a break."""
_MARKS = 4
"""Most calls of mark_dynamic that one advice spells out."""
_WHOLE = re.compile(r"-?\d+")
_ROOT = re.compile(r"[^\W\d]\w*")
_ZERO_OR_ONE = (
    "Expect one extra compile: torch always compiles a size of 0 or 1 separately, dynamic or not",
    "Or pad to a size of 2 or more",
)
_ADVICE: dict[GuardCause, str] = {
    GuardCause.RANK: "Call it with a fixed number of dimensions, or compile one function for each",
    GuardCause.DTYPE: "Convert to one dtype before the call, or accept one compile per dtype",
    GuardCause.DEVICE: "Move the tensors to one device before the call",
    GuardCause.REQUIRES_GRAD: "Pass tensors with the same requires_grad: detach() those that need no gradient",
    GuardCause.STRIDE: "Pass tensors in one memory layout, for example after .contiguous()",
    GuardCause.DISPATCH: (
        "Pass tensors of one kind: resolve_conj() or clone() lazy views, and create inputs outside inference_mode if "
        "the call is outside it"
    ),
    GuardCause.VALUE: (
        "Keep the value fixed, choose between functions outside the compiled region, or pass it in as a "
        "tensor"
    ),
    GuardCause.NONE: (
        "Always pass a tensor (an empty or neutral one instead of None), or accept one compile per case"
    ),
    GuardCause.TYPE: "Pass arguments of one type",
    GuardCause.LENGTH: (
        "Stack the elements into one tensor, or pad to a fixed length: each length needs its own compile"
    ),
    GuardCause.KEYS: (
        "Build the dict with the same keys in the same order each time, or pass the values as arguments"
    ),
    GuardCause.OBJECT: (
        "Create the object or function once, outside the call, and use the same one each time: "
        "each new one needs a new compile"
    ),
    GuardCause.TRAINING: (
        "Expect one compile each for train() and eval(); call eval() before an evaluation, not in each step"
    ),
    GuardCause.GLOBAL_STATE: (
        "Call it under the same grad mode, autocast and deterministic settings each time: each state needs its own "
        "compile"
    ),
    GuardCause.ALIASING: (
        "Do not pass the same tensor (or views of it) as two arguments in some calls and not in others; "
        "clone() it"
    ),
    GuardCause.RELATION: (
        "The compiled code is valid only while the sizes keep this relation, even if they are dynamic: avoid code that "
        "depends on it, or accept one compile per outcome"
    ),
    GuardCause.ARGUMENTS: "Always pass the same arguments by position and the same arguments by keyword",
    GuardCause.MISSING: "Set the attribute in __init__, so that each call sees the same attributes",
    GuardCause.BACKEND: "Compile once, with one backend, mode and set of options, and keep the result",
    GuardCause.DELETED: (
        "Keep the object that the compiled code refers to alive, instead of creating a new one for each call"
    ),
    GuardCause.OTHER: "Compare the two values shown, and keep the guarded value the same from call to call",
}


def varying_sizes(*failures: GuardFailure) -> tuple[tuple[str, int], ...]:
    """Tensor and dimension of each size that differs and that torch can keep symbolic; a guard may name several."""
    found = (
        (size.name, size.dimension)
        for failure in failures
        for size in failure.sizes
        if not size.name.startswith(CARRIED) and {0, 1}.isdisjoint((size.was, size.now))
    )
    return tuple(dict.fromkeys(found))


def advice(
    failure: GuardFailure, *, ours: bool = True, also: Collection[GuardFailure] = ()
) -> tuple[str, ...]:
    """What to do about it. `ours`: the function is in the workspace, so that its names are the user's too.

    `also`: other sizes that changed with it.
    """
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    if failure.cause is GuardCause.DIMENSION:
        return _dimension_advice(failure, ours=ours, also=also)
    if failure.cause is GuardCause.NUMBER:
        return _number_advice(failure)
    return (_ADVICE[failure.cause],)


def advice_after_break(failure: GuardFailure, line: int, parameters: Collection[str]) -> tuple[str, ...]:
    """What to do in a part that starts after the break on `line`.

    A value carried over the break is an input of that part only; the function's `parameters` are inputs without it too.
    """
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    root = _ROOT.match(failure.source)
    given = root is not None and root[0] in parameters
    if failure.cause is GuardCause.DIMENSION:
        marked = (
            "ompile with torch.compile(..., dynamic=True), or mark the dimension of the input it comes from with "
            "torch._dynamo.mark_dynamic"
        )
        remove = (
            f"Remove the graph break on line {line}: without it, this size is not an input of a compiled part"
        )
        return (f"C{marked}",) if given else (remove, f"Or c{marked}")
    if (
        failure.cause is GuardCause.NUMBER
        and not given
        and not failure.source.startswith("self.")
        and not _is_closure_variable(failure)
    ):
        name = failure.source or "the number"
        return (
            f"Keep {quoted(name)} a tensor, so that no Python number crosses the graph break on line {line}",
        )
    return advice(failure)


def fixed_by_torch(failure: GuardFailure) -> bool:
    """Whether the change is to or from a size of 0 or 1, which torch always compiles separately."""
    if {"0", "1"}.isdisjoint((failure.was, failure.now)):
        return False
    # Code that is compiled for any size of 2 or more says so in a guard.
    return failure.cause is GuardCause.DIMENSION or failure.code.startswith("2 <= ")


def _dimension_advice(
    failure: GuardFailure, *, ours: bool, also: Collection[GuardFailure]
) -> tuple[str, ...]:
    sizes = varying_sizes(failure, *also)
    if not sizes:
        return ("Compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes",)
    marks = [mark_call(name, dimension, ours=ours) for name, dimension in sizes]
    if len(marks) > _MARKS:
        marks[_MARKS - 1 :] = [f"and {len(marks) - _MARKS + 1} more"]
    say = (
        "Mark the size as dynamic before the first call"
        if len(sizes) == 1
        else "Mark all these sizes as dynamic before the first call (marking only one is an error where torch finds it "
        "equal to another)"
    )
    return (
        f"{say}: {', '.join(marks)}",
        "Or compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes",
    )


def mark_call(name: str, dimension: int, *, ours: bool, mark: str = "mark_dynamic") -> str:
    """The call that marks a size. `ours`: the name is the user's; `mark`: a function of `torch._dynamo`."""
    # What a library's function or a wrapper's *args take has another name at the user's call.
    if ours and not name.startswith(("args[", "kwargs[")):
        return f"torch._dynamo.{mark}({name}, {dimension})"
    return f"torch._dynamo.{mark}(x, {dimension}) for the x that is passed as `{name}`"


def _is_closure_variable(failure: GuardFailure) -> bool:
    return "__closure__" in failure.code


def _number_advice(failure: GuardFailure) -> tuple[str, ...]:
    name = failure.source or "the number"
    if name.startswith("self."):
        return (
            f"Make `{name}` a tensor or a buffer (self.register_buffer), whose value has no guard",
            "Or set torch._dynamo.config.allow_unspec_int_on_nn_module = True, which keeps module ints symbolic",
        )
    if _is_closure_variable(failure):
        return ("Pass it as an argument, or as a tensor if it varies often: torch fixes closure variables",)
    if failure.code.startswith("G["):
        return (
            (
                "Pass it as an argument, or as a tensor if it varies often: torch fixes global numbers, even "
                "with dynamic=True"
            ),
        )
    keep = f"Pass `{name}` as a tensor, whose value has no guard"
    whole = all(_WHOLE.fullmatch(value or "") for value in (failure.was, failure.now))
    return (
        (keep, "Or compile with torch.compile(..., dynamic=True), which makes ints symbolic")
        if whole
        else (keep,)
    )
