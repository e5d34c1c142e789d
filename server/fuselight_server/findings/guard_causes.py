"""The kind of change that made a guard fail, and the advice for each kind.

Invariant: the kind is read from the guard (its Dynamo name, what it checks, how it differs), never from the
user's source; a guard of an unknown kind is `OTHER`, and its advice is to look at the values shown.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from fuselight_server.findings.text import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from fuselight.report import GuardFailure


class GuardCause(str, enum.Enum):
    """What differed between the call and the cache entry."""

    DIMENSION = "dimension"
    RANK = "rank"
    DTYPE = "dtype"
    DEVICE = "device"
    REQUIRES_GRAD = "requires_grad"
    STRIDE = "stride"
    DISPATCH = "dispatch"
    NUMBER = "number"
    VALUE = "value"
    NONE = "none"
    TYPE = "type"
    LENGTH = "length"
    KEYS = "keys"
    OBJECT = "object"
    TRAINING = "training"
    GLOBAL_STATE = "global_state"
    ALIASING = "aliasing"
    RELATION = "relation"
    MISSING = "missing"
    BACKEND = "backend"
    DELETED = "deleted"
    OTHER = "other"


DIMENSION = re.compile(
    r"^(?:(?P<name>[^\s()]+?)\.(?:size\((?P<size>\d+)\)|shape\[(?P<shape>\d+)\])"
    r"|(?:size\(\d+\)|shape\[\d+\]) of (?:the|a) value .+?)(?= was |$)"
)
"""A size of a tensor: one with a name, or a value carried over a graph break, which has no name."""
_RELATION = re.compile(r"(?:size\(|shape\[).*(?:==|!=|<|>|%)|no longer holds")
_CHANGED = re.compile(r" was (?P<was>\d+), now (?P<now>\d+)$")
_MARKS = 4
"""Most calls of mark_dynamic that one advice spells out."""
_WHOLE = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

# A setting of torch may bear the name of a tensor's property (the default dtype), so the guard's kind decides first.
_SETTINGS = ("GLOBAL_STATE", "GRAD_MODE", "DETERMINISTIC", "TORCH_FUNCTION", "DEFAULT_DEVICE")
_ALIASING = re.compile(r"same (?:tensor|object)|alias|overlap", re.IGNORECASE)

# Words that decide by themselves, first match wins: what the difference or the expression names.
_WORDS: tuple[tuple[re.Pattern[str], GuardCause], ...] = (
    (re.compile(r"^the dispatch keys of |inference tensor|lazily"), GuardCause.DISPATCH),
    (re.compile(r"^the type of | was a tensor, now "), GuardCause.TYPE),
    (re.compile(r"\.dtype\b|\bdtype\b"), GuardCause.DTYPE),
    (re.compile(r"\.device\b|\bdevice\b"), GuardCause.DEVICE),
    (re.compile(r"requires_grad"), GuardCause.REQUIRES_GRAD),
    (re.compile(r"stride|contiguous|memory.format"), GuardCause.STRIDE),
    (re.compile(r"\bndim\b|\.dim\(\)|\brank\b|dimensions"), GuardCause.RANK),
    (re.compile(r"grad.?mode|inference.?mode|autocast|deterministic", re.IGNORECASE), GuardCause.GLOBAL_STATE),
    (re.compile(r"num_threads|default.dtype|torch.function", re.IGNORECASE), GuardCause.GLOBAL_STATE),
    (re.compile(r"\.training\b"), GuardCause.TRAINING),
    (re.compile(r"\bbackend\b"), GuardCause.BACKEND),
    (re.compile(r"^(?:key \d+ of |list\()|was (?:not )?in "), GuardCause.KEYS),
    (re.compile(r"^len\(|was empty"), GuardCause.LENGTH),
)  # fmt: skip

# Otherwise Dynamo's own name of the guard, by a part of it.
_KINDS: tuple[tuple[str, GuardCause], ...] = (
    ("ALIASING", GuardCause.ALIASING),
    ("DUPLICATE_INPUT", GuardCause.ALIASING),
    ("OVERLAP", GuardCause.ALIASING),
    ("SHAPE_ENV", GuardCause.RELATION),
    ("LAMBDA_GUARD", GuardCause.RELATION),
    ("DICT_KEYS", GuardCause.KEYS),
    ("DICT_CONTAINS", GuardCause.KEYS),
    ("DICT_VERSION", GuardCause.KEYS),
    ("SET_CONTAINS", GuardCause.KEYS),
    ("MAPPING_KEYS", GuardCause.KEYS),
    ("LENGTH", GuardCause.LENGTH),
    ("NONE_MATCH", GuardCause.NONE),
    ("NOT_NONE", GuardCause.NONE),
    ("TYPE_MATCH", GuardCause.TYPE),
    ("CLASS_MATCH", GuardCause.TYPE),
    ("TENSOR_SUBCLASS", GuardCause.TYPE),
    ("FUNCTION_MATCH", GuardCause.OBJECT),
    ("CLOSURE_MATCH", GuardCause.OBJECT),
    ("MODULE_MATCH", GuardCause.OBJECT),
    ("ID_MATCH", GuardCause.OBJECT),
    ("WEAKREF", GuardCause.OBJECT),
    ("HASATTR", GuardCause.MISSING),
    ("NOT_PRESENT", GuardCause.MISSING),
    ("DELETED", GuardCause.DELETED),
    ("BACKEND", GuardCause.BACKEND),
)

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
    GuardCause.MISSING: "Set the attribute in __init__, so that each call sees the same attributes",
    GuardCause.BACKEND: "Compile once, with one backend, mode and set of options, and keep the result",
    GuardCause.DELETED: (
        "Keep the object that the compiled code refers to alive, instead of creating a new one for each call"
    ),
    GuardCause.OTHER: "Compare the two values shown, and keep the guarded value the same from call to call",
}


def cause_of(failure: GuardFailure) -> GuardCause:
    """Return the kind of change that made a guard fail."""
    kind = failure.kind.upper()
    if kind.startswith(_SETTINGS):
        return GuardCause.GLOBAL_STATE
    return _cause_of_difference(failure, kind) or _cause_of_kind(failure, kind) or _cause_of_value(failure)


def _cause_of_difference(failure: GuardFailure, kind: str) -> GuardCause | None:
    """What the words of the difference decide."""
    if DIMENSION.match(failure.difference) and failure.was is not None:
        return GuardCause.DIMENSION
    if _ALIASING.search(failure.difference):
        return GuardCause.ALIASING
    if kind in {"SHAPE_ENV", "LAMBDA_GUARD"} or _RELATION.search(failure.difference):
        return GuardCause.RELATION
    if "None" in (failure.was, failure.now):
        return GuardCause.NONE
    subject = failure.difference or failure.code
    return next((cause for words, cause in _WORDS if words.search(subject)), None)


def _cause_of_kind(failure: GuardFailure, kind: str) -> GuardCause | None:
    """What Dynamo's name of the guard decides."""
    cause = next((cause for part, cause in _KINDS if part in kind), None)
    # Two known objects, as members of an enum, are a choice between values; an unknown one is made anew.
    return GuardCause.VALUE if cause is GuardCause.OBJECT and failure.was and failure.now else cause


def _cause_of_value(failure: GuardFailure) -> GuardCause:
    if failure.was and failure.now and _NUMBER.fullmatch(failure.was) and _NUMBER.fullmatch(failure.now):
        return GuardCause.NUMBER
    if "EQUALS" in failure.kind.upper() or "CONSTANT" in failure.kind.upper() or failure.was is not None:
        return GuardCause.VALUE
    return GuardCause.OTHER


def varying_sizes(*failures: GuardFailure) -> tuple[tuple[str, str], ...]:
    """Tensor and dimension of each size that differs and that torch can keep symbolic; a guard may name several."""
    out: dict[tuple[str, str], None] = {}
    for part in (part for failure in failures for part in failure.difference.split("; ")):
        found, values = DIMENSION.match(part), _CHANGED.search(part)
        if found and found["name"] and values and {"0", "1"}.isdisjoint(values.groups()):
            out[found["name"], found["size"] or found["shape"]] = None
    return tuple(out)


_PASSED_ON = frozenset({"positional arguments", "keyword arguments"})
"""What the worker calls the `*args` and `**kwargs` of a library's wrapper around the function."""


def advice(
    failure: GuardFailure, *, ours: bool = True, also: Collection[GuardFailure] = ()
) -> tuple[str, ...]:
    """What to do about it. `ours`: the function is in the workspace, so that its names are the user's too.

    `also`: other sizes that changed with it.
    """
    cause = cause_of(failure)
    if failure.source in _PASSED_ON:
        return ("Always pass the same arguments by position and the same arguments by keyword",)
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    if cause is GuardCause.DIMENSION:
        return _dimension_advice(failure, ours=ours, also=also)
    if cause is GuardCause.NUMBER:
        return _number_advice(failure)
    return (_ADVICE[cause],)


def advice_after_break(failure: GuardFailure, line: int, parameters: Collection[str]) -> tuple[str, ...]:
    """What to do in a part that starts after the break on `line`.

    A value carried over the break is an input of that part only; the function's `parameters` are inputs without it too.
    """
    cause = cause_of(failure)
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    root = _ROOT.match(failure.source)
    given = root is not None and root[0] in parameters
    if cause is GuardCause.DIMENSION:
        marked = (
            "ompile with torch.compile(..., dynamic=True), or mark the dimension of the input it comes from with "
            "torch._dynamo.mark_dynamic"
        )
        remove = (
            f"Remove the graph break on line {line}: without it, this size is not an input of a compiled part"
        )
        return (f"C{marked}",) if given else (remove, f"Or c{marked}")
    if (
        cause is GuardCause.NUMBER
        and not given
        and not failure.source.startswith(("self.", "closure variable"))
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
    return cause_of(failure) is GuardCause.DIMENSION or failure.difference.startswith("2 <= ")


def _dimension_advice(
    failure: GuardFailure, *, ours: bool, also: Collection[GuardFailure]
) -> tuple[str, ...]:
    sizes = varying_sizes(failure, *also)
    found = DIMENSION.match(failure.difference)
    if found is None or found["name"] is None or not sizes:
        return ("Compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes",)
    marks = [_mark(name, dimension, ours=ours) for name, dimension in sizes]
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


def _mark(name: str, dimension: str, *, ours: bool) -> str:
    # What a library's function or a wrapper's *args take has another name at the user's call.
    if ours and not name.startswith(("args[", "kwargs[")):
        return f"torch._dynamo.mark_dynamic({name}, {dimension})"
    return f"torch._dynamo.mark_dynamic(x, {dimension}) for the x that is passed as `{name}`"


def _number_advice(failure: GuardFailure) -> tuple[str, ...]:
    name = failure.source or "the number"
    if name.startswith("self."):
        return (
            f"Make `{name}` a tensor or a buffer (self.register_buffer), whose value has no guard",
            "Or set torch._dynamo.config.allow_unspec_int_on_nn_module = True, which keeps module ints symbolic",
        )
    if name.startswith("closure variable"):
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
