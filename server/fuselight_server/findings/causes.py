"""What kind of change made a guard fail, and what to do about each kind.

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


class Cause(str, enum.Enum):
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
"""A size of a tensor: of one that has a name, or of a value that a break carried over, which has none."""
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
_WORDS: tuple[tuple[re.Pattern[str], Cause], ...] = (
    (re.compile(r"^the dispatch keys of |inference tensor|lazily"), Cause.DISPATCH),
    (re.compile(r"^the type of | was a tensor, now "), Cause.TYPE),
    (re.compile(r"\.dtype\b|\bdtype\b"), Cause.DTYPE),
    (re.compile(r"\.device\b|\bdevice\b"), Cause.DEVICE),
    (re.compile(r"requires_grad"), Cause.REQUIRES_GRAD),
    (re.compile(r"stride|contiguous|memory.format"), Cause.STRIDE),
    (re.compile(r"\bndim\b|\.dim\(\)|\brank\b|dimensions"), Cause.RANK),
    (re.compile(r"grad.?mode|inference.?mode|autocast|deterministic", re.IGNORECASE), Cause.GLOBAL_STATE),
    (re.compile(r"num_threads|default.dtype|torch.function", re.IGNORECASE), Cause.GLOBAL_STATE),
    (re.compile(r"\.training\b"), Cause.TRAINING),
    (re.compile(r"\bbackend\b"), Cause.BACKEND),
    (re.compile(r"^(?:key \d+ of |list\()|was (?:not )?in "), Cause.KEYS),
    (re.compile(r"^len\(|was empty"), Cause.LENGTH),
)  # fmt: skip

# Otherwise Dynamo's own name of the guard, by a part of it.
_KINDS: tuple[tuple[str, Cause], ...] = (
    ("ALIASING", Cause.ALIASING),
    ("DUPLICATE_INPUT", Cause.ALIASING),
    ("OVERLAP", Cause.ALIASING),
    ("SHAPE_ENV", Cause.RELATION),
    ("LAMBDA_GUARD", Cause.RELATION),
    ("DICT_KEYS", Cause.KEYS),
    ("DICT_CONTAINS", Cause.KEYS),
    ("DICT_VERSION", Cause.KEYS),
    ("SET_CONTAINS", Cause.KEYS),
    ("MAPPING_KEYS", Cause.KEYS),
    ("LENGTH", Cause.LENGTH),
    ("NONE_MATCH", Cause.NONE),
    ("NOT_NONE", Cause.NONE),
    ("TYPE_MATCH", Cause.TYPE),
    ("CLASS_MATCH", Cause.TYPE),
    ("TENSOR_SUBCLASS", Cause.TYPE),
    ("FUNCTION_MATCH", Cause.OBJECT),
    ("CLOSURE_MATCH", Cause.OBJECT),
    ("MODULE_MATCH", Cause.OBJECT),
    ("ID_MATCH", Cause.OBJECT),
    ("WEAKREF", Cause.OBJECT),
    ("HASATTR", Cause.MISSING),
    ("NOT_PRESENT", Cause.MISSING),
    ("DELETED", Cause.DELETED),
    ("BACKEND", Cause.BACKEND),
)

_ROOT = re.compile(r"[^\W\d]\w*")
_ZERO_OR_ONE = (
    "Expect this one more compile: torch always compiles a size of 0 or 1 by itself, dynamic or not",
    "Or pad to a size of 2 or more",
)
_ADVICE: dict[Cause, str] = {
    Cause.RANK: "Call it with one number of dimensions, or compile a function for each",
    Cause.DTYPE: "Convert to one dtype before the call, or accept one compile for each dtype that you use",
    Cause.DEVICE: "Move the tensors to one device before the call",
    Cause.REQUIRES_GRAD: "Pass tensors that agree on requires_grad: detach() those that need no gradient",
    Cause.STRIDE: "Pass tensors of one memory layout, as by .contiguous()",
    Cause.DISPATCH: (
        "Pass tensors of one kind: resolve_conj() or clone() what is a lazy view, and make inputs outside of "
        "inference_mode if the call is outside of it"
    ),
    Cause.VALUE: (
        "Keep the value fixed, choose between functions outside the compiled region, or pass it in as a "
        "tensor"
    ),
    Cause.NONE: (
        "Pass a tensor always (an empty or neutral one instead of None), or accept one compile for each case"
    ),
    Cause.TYPE: "Pass arguments of one type",
    Cause.LENGTH: (
        "Stack the elements into one tensor, or pad to a fixed length: each length is a compile of its own"
    ),
    Cause.KEYS: (
        "Build the dict with the same keys in the same order each time, or pass the values as arguments"
    ),
    Cause.OBJECT: (
        "Create the object or function once, outside the call, and use the same one each time: "
        "a new one is a new compile"
    ),
    Cause.TRAINING: (
        "train() and eval() are two compiles: this is expected once; call eval() before the first "
        "evaluation only, "
        "not in each step"
    ),
    Cause.GLOBAL_STATE: (
        "Call it under the same grad mode, autocast and deterministic settings each time: each state "
        "is a compile of "
        "its own"
    ),
    Cause.ALIASING: (
        "Do not pass the same tensor (or views of it) as two arguments in some calls and not in others; "
        "clone() it"
    ),
    Cause.RELATION: (
        "The compiled code holds only while the sizes keep this relation, also where they are dynamic: avoid code "
        "that depends on it, or accept one compile for each way it turns out"
    ),
    Cause.MISSING: "Set the attribute in __init__, so that each call sees the same ones",
    Cause.BACKEND: "Compile with one backend, mode and options; compile once and keep the result",
    Cause.DELETED: (
        "Keep the object that the compiled code refers to alive, instead of making a new one for each call"
    ),
    Cause.OTHER: "Compare the two values shown, and keep what the guard checks the same from call to call",
}


def cause_of(failure: GuardFailure) -> Cause:
    """The kind of change behind a failed guard."""
    kind = failure.kind.upper()
    if kind.startswith(_SETTINGS):
        return Cause.GLOBAL_STATE
    return _cause_of_difference(failure, kind) or _cause_of_kind(failure, kind) or _cause_of_value(failure)


def _cause_of_difference(failure: GuardFailure, kind: str) -> Cause | None:
    """What the words of the difference decide."""
    if DIMENSION.match(failure.difference) and failure.was is not None:
        return Cause.DIMENSION
    if _ALIASING.search(failure.difference):
        return Cause.ALIASING
    if kind in {"SHAPE_ENV", "LAMBDA_GUARD"} or _RELATION.search(failure.difference):
        return Cause.RELATION
    if "None" in (failure.was, failure.now):
        return Cause.NONE
    subject = failure.difference or failure.code
    return next((cause for words, cause in _WORDS if words.search(subject)), None)


def _cause_of_kind(failure: GuardFailure, kind: str) -> Cause | None:
    """What Dynamo's name of the guard decides."""
    cause = next((cause for part, cause in _KINDS if part in kind), None)
    # Two known objects, as members of an enum, are a choice between values; an unknown one is made anew.
    return Cause.VALUE if cause is Cause.OBJECT and failure.was and failure.now else cause


def _cause_of_value(failure: GuardFailure) -> Cause:
    if failure.was and failure.now and _NUMBER.fullmatch(failure.was) and _NUMBER.fullmatch(failure.now):
        return Cause.NUMBER
    if "EQUALS" in failure.kind.upper() or "CONSTANT" in failure.kind.upper() or failure.was is not None:
        return Cause.VALUE
    return Cause.OTHER


def varying_sizes(*failures: GuardFailure) -> tuple[tuple[str, str], ...]:
    """Tensor and dimension of each size that differs and that torch can keep symbolic; a guard may tell of several."""
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
        return ("Call it in one way: the same arguments by position, and the same ones by keyword",)
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    if cause is Cause.DIMENSION:
        return _dimension_advice(failure, ours=ours, also=also)
    if cause is Cause.NUMBER:
        return _number_advice(failure)
    return (_ADVICE[cause],)


def advice_behind_a_break(failure: GuardFailure, line: int, parameters: Collection[str]) -> tuple[str, ...]:
    """What to do in a part that lies behind the break on `line`.

    What the break carried over is an input of the part alone; one of the function's `parameters` stays one without it.
    """
    cause = cause_of(failure)
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    root = _ROOT.match(failure.source)
    given = root is not None and root[0] in parameters
    if cause is Cause.DIMENSION:
        marked = (
            "ompile with torch.compile(..., dynamic=True), or mark the dimension of the input that it comes from with "
            "torch._dynamo.mark_dynamic"
        )
        remove = f"Remove the graph break on line {line}: this size then is no input of a compiled part"
        return (f"C{marked}",) if given else (remove, f"Or c{marked}")
    if cause is Cause.NUMBER and not given and not failure.source.startswith(("self.", "closure variable")):
        name = failure.source or "the number"
        return (
            f"Keep {quoted(name)} a tensor, so that the graph break on line {line} carries no Python number over",
        )
    return advice(failure)


def fixed_by_torch(failure: GuardFailure) -> bool:
    """Whether the change is to or from a size of 0 or 1, which torch compiles by itself whatever is marked."""
    if {"0", "1"}.isdisjoint((failure.was, failure.now)):
        return False
    # Code that is compiled for any size of 2 or more says so in a guard.
    return cause_of(failure) is Cause.DIMENSION or failure.difference.startswith("2 <= ")


def _dimension_advice(
    failure: GuardFailure, *, ours: bool, also: Collection[GuardFailure]
) -> tuple[str, ...]:
    sizes = varying_sizes(failure, *also)
    found = DIMENSION.match(failure.difference)
    if found is None or found["name"] is None or not sizes:
        return ("Compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes",)
    marks = [_mark(name, dimension, ours=ours) for name, dimension in sizes]
    if len(marks) > _MARKS:
        marks[_MARKS - 1 :] = [f"and so on for {len(marks) - _MARKS + 1} more"]
    say = (
        "Say before the first call that it varies"
        if len(sizes) == 1
        else "Say before the first call that they vary, all of them (one alone is an error where torch finds it equal "
        "to another)"
    )
    return (
        f"{say}: {', '.join(marks)}",
        "Or compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes",
    )


def _mark(name: str, dimension: str, *, ours: bool) -> str:
    # What a library's function or a wrapper's *args take has another name at the user's call.
    if ours and not name.startswith(("args[", "kwargs[")):
        return f"torch._dynamo.mark_dynamic({name}, {dimension})"
    return f"torch._dynamo.mark_dynamic(x, {dimension}) for the x that arrives as `{name}`"


def _number_advice(failure: GuardFailure) -> tuple[str, ...]:
    name = failure.source or "the number"
    if name.startswith("self."):
        return (
            f"Make `{name}` a tensor or a buffer (self.register_buffer), which is no part of the guards",
            "Or set torch._dynamo.config.allow_unspec_int_on_nn_module = True, which keeps ints of modules symbolic",
        )
    if name.startswith("closure variable"):
        return (
            "Pass it as an argument, as a tensor if it varies often: what a function closes over is fixed",
        )
    if failure.code.startswith("G["):
        return (
            (
                "Pass it as an argument, as a tensor if it varies often: a number that is read from the module is "
                "fixed, with dynamic=True too"
            ),
        )
    keep = f"Pass `{name}` as a tensor, whose value no guard checks"
    whole = all(_WHOLE.fullmatch(value or "") for value in (failure.was, failure.now))
    return (
        (keep, "Or compile with torch.compile(..., dynamic=True): ints are then symbolic")
        if whole
        else (keep,)
    )
