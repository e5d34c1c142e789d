"""What to expect where no change of the calls is known to cure a recompilation, and what cannot be tried.

Invariant: a sentence here is true of every program with such a guard. What would depend on the program is a cure, which
is tried (cures.py), or a fix of the text, which is verified.
"""

from __future__ import annotations

import re

from fuselight.shared.report import GuardCause, GuardFailure, StaticSizes
from fuselight_server.explain.findings.common.text import quoted

CARRIED = "___stack"
"""How the names begin of values on Python's stack when compiled code resumes after a break."""
_CHANGED = re.compile(r"(?P<what>.+) was (?P<was>\S.*?), now ")
_CALCULATED = re.compile(r"(?:.+ [*/%+-]{1,2} .+|a value calculated from .+) was -?\d+\.\d\S*, now ")
_HAD_KEY = re.compile(r"(\S+) had (?:the|no) key ")
_OF_KEYS = re.compile(r"list\((?P<keys>.+)\)\[\d+\]$|len\((?P<counted>.+?)\) was ")
_ENVIRON = re.compile(r"\benviron(?:\[|$)")
_OUTSIDE = "Read the variable outside the compiled function and pass it in: each value needs its own compile"
ONE_WITH_GRADIENTS = (
    "Expect one compile for tensors that require a gradient, and one for those that do not. Call detach() before the "
    "call only where no gradient has to flow back"
)
_FREEZE = (
    "Freeze parameters, with requires_grad_(False), before the first call",
    "Or expect one compile for each set of parameters that are trained",
)
NOT_TRIED = "This change of the code cannot be tried here"
"""What advice says that needs other code, which no trial can write."""
_ONE_FOR_EACH_OBJECT = (
    "Expect one compile for each such object: all objects with this function share its compiled versions, and this one "
    "has other sizes or parts"
)
_KEEP_GRADIENTS = (
    "Keep the gradient's tensor between the steps: zero_grad(set_to_none=False), or set it to zero in place. It then "
    "keeps its memory, and writing the zeros takes time"
)
ZERO_OR_ONE = "by default, torch compiles a size of 0 or 1 separately, even a dynamic one"
_EXPECTED: dict[GuardCause, str | tuple[str, ...]] = {
    GuardCause.DIMENSION: (
        "Expect one compile for each value of {value}, or pad to a few fixed sizes, which adds work, and elements to "
        "leave out of results"
    ),
    GuardCause.NUMBER: "Expect one compile for each value of {value}",
    GuardCause.RANK: "Expect one compile for each number of dimensions of {value}",
    GuardCause.DTYPE: "Expect one compile for each dtype of {value}",
    GuardCause.DEVICE: "Expect one compile for each device, or move the tensors to one device before the call",
    GuardCause.REQUIRES_GRAD: ONE_WITH_GRADIENTS,
    GuardCause.STRIDE: "Expect one compile for each memory layout of {value}",
    GuardCause.DISPATCH: "Expect one compile for each kind of tensor, or pass tensors of one kind each time",
    GuardCause.VALUE: "Expect one compile for each value of {value}",
    GuardCause.NONE: "Expect one compile for {value} as None, and one for each other kind of value",
    GuardCause.TYPE: "Expect one compile for each type of {value}",
    GuardCause.CLASS: (
        "Define the class once, outside the function: objects of the same sizes and values then share compiled code"
    ),
    GuardCause.LENGTH: "Expect one compile for each length of {value}",
    GuardCause.KEYS: "Expect one compile for each difference in the {parts} of {value} that the code reads",
    GuardCause.OBJECT: (
        "Expect one compile for each object: torch guards on which one it is. Where all of them do the same, create it "
        "once, outside the call"
    ),
    GuardCause.TRAINING: (
        "Expect one compile each for train() and eval(); call eval() before an evaluation, not in each step"
    ),
    GuardCause.GLOBAL_STATE: "Expect one compile for each state of torch that the calls run in",
    GuardCause.ALIASING: (
        "Expect one compile for arguments that are the same tensor or views of it, and one for those that are not"
    ),
    GuardCause.RELATION: (
        "Expect one compile for the calls for which {relation} holds, and one for those for which it does not, also "
        "where these values are dynamic"
    ),
    GuardCause.ARGUMENTS: (
        "Expect one compile for each set of arguments, or pass the same ones by position and by keyword in each call"
    ),
    GuardCause.MISSING: (
        "Set the attribute in __init__, to a value that no call replaces, as a table of the greatest length: where a "
        "call makes another one, each size of it still compiles"
    ),
    GuardCause.WRAPPED: "Expect one compile for each function that this wrapper is around",
    GuardCause.BACKEND: "Compile once, with one backend, mode and set of options, and keep the result",
    GuardCause.DELETED: (
        "Keep the object that the compiled code refers to alive, instead of creating a new one for each call"
    ),
    GuardCause.OTHER: "Expect one compile for each of the values shown",
}
_BY_KIND = {
    "inference tensor": (
        "Create {value} under the same mode each time: always inside torch.inference_mode(), or always outside it"
    ),
    "lazily conjugated": "Pass {value} without a lazy view: resolve_conj() returns a tensor with its own memory",
    "lazily negated": "Pass {value} without a lazy view: resolve_neg() returns a tensor with its own memory",
    "torch.vmap": "Compile the transformed function, as in torch.compile(torch.vmap(f)), instead of `f` alone",
    "torch.func": "Compile the transformed function, as in torch.compile(torch.func.grad(f)), instead of `f` alone",
    "sparse": "Pass {value} in one layout each time, for example after to_dense()",
    "quantized": "Pass {value} in one form each time, for example after dequantize()",
    "MKL-DNN": "Pass {value} in one layout each time, for example after to_dense()",
    "dispatch mode": "Make all calls inside the dispatch mode, or all outside it",
}
"""What to do where a tensor is of another kind, by a part of the words for the kind."""
_PARTS = frozenset(
    {
        GuardCause.LENGTH,
        GuardCause.KEYS,
        GuardCause.NONE,
        GuardCause.TYPE,
        GuardCause.OBJECT,
        GuardCause.MISSING,
    }
)
"""Differences between two objects of a class that are built of other parts."""


def expectation(failure: GuardFailure, *, other_object: bool = False) -> tuple[str, ...]:
    """What to expect of a failed guard.

    `other_object`: the function belongs to another object than at the compile.
    """
    words = (
        _of_state(failure, other_object=other_object)
        or _of_special(failure, other_object=other_object)
        or _EXPECTED[failure.cause]
    )
    texts = words if isinstance(words, tuple) else (words,)
    size = failure.sizes[0] if failure.cause is GuardCause.DIMENSION and failure.sizes else None
    name = f"{size.name}.size({size.dimension})" if size is not None else failure.source
    if failure.cause is GuardCause.KEYS:  # the guard is on a key, or on how many there are
        owner = _HAD_KEY.match(failure.difference) or _OF_KEYS.match(name or failure.difference)
        name = next(filter(None, owner.groups())) if owner is not None else name
    value = quoted(name) if name else "the value"
    changed = _CHANGED.match(failure.difference)
    relation = failure.difference.partition(" no longer holds")[0]
    known = {
        "value": value,
        "difference": failure.difference,
        "relation": f"`{changed['what']} == {changed['was']}`" if changed else f"`{relation}`",
        "result": f"`{changed['what']}`" if changed else value,
        "parts": "elements" if "set.__contains__(" in failure.code else "keys",
    }
    return tuple(text.format(**known).replace("value of the value of", "value of") for text in texts)


def _of_special(failure: GuardFailure, *, other_object: bool) -> str | tuple[str, ...]:
    """What to expect where more is known than the cause; empty if that is all."""
    kinds = f"{failure.was} {failure.now}"
    by_kind = next((words for part, words in _BY_KIND.items() if part in kinds), "")
    known: tuple[tuple[bool, str | tuple[str, ...]], ...] = (
        (_ENVIRON.search(failure.source) is not None, _OUTSIDE),
        (_OF_HOOKS.search(failure.difference) is not None, _HOOKS),
        (
            failure.cause is GuardCause.NONE and _STRING.match(f"{failure.was};{failure.now}") is not None,
            _NONE_OR_TEXT,
        ),
        (failure.cause is GuardCause.ALIASING and "same tensor" not in failure.difference, SAME_OBJECT),
        (fixed_by_torch(failure) and _OFFSET.search(failure.difference) is not None, _of_offset(failure)),
        (
            failure.cause is GuardCause.CLASS and _TORCHS_CLASS.match(failure.difference) is not None,
            _ONE_FOR_EACH_CLASS,
        ),
        (fixed_by_torch(failure), f"Expect it: {ZERO_OR_ONE}"),
        (
            is_calculated(failure) and not failure.source,
            "Expect one compile for each value of {result}, which the code computes",
        ),
        (failure.cause is GuardCause.DISPATCH, by_kind),
        (failure.cause is GuardCause.NONE and failure.source.isidentifier(), _NONE_OR_GIVEN),
        (failure.cause is GuardCause.TRAINING and failure.source.isidentifier(), _EXPECTED[GuardCause.VALUE]),
        (other_object and is_of_object(failure) and failure.cause in _PARTS, _ONE_FOR_EACH_OBJECT),
        (failure.cause is GuardCause.DELETED and failure.source.endswith(".grad"), _KEEP_GRADIENTS),
    )
    return next((words for holds, words in known if holds), "")


def is_calculated(failure: GuardFailure) -> bool:
    """Whether compiled code is for one result of a calculation with floats: each other result compiles again."""
    return _CALCULATED.match(failure.difference) is not None


_TORCHS_CLASS = re.compile(r"the class torch\.")
_ONE_FOR_EACH_CLASS = (
    "Expect one compile for each such object: torch creates a class for each of them, as parametrizations do, and "
    "shares no compiled code between classes"
)
_OF_HOOKS = re.compile(r"\b(?:pre-)?hook of \S+ was removed|\bthe number of \w+ (?:pre-)?hooks of ")
_HOOKS = (
    "Expect one compile with the hooks and one without: compiled code holds the hooks that the modules had. To compile "
    "once, register them before the first call, and keep them"
)
_NONE_OR_GIVEN = (
    "Expect one compile for {value} as None, and one for each other kind of value: one in all, if each call passes the "
    "same kind"
)
_STRING = re.compile(r"(?:None;)?['\"]")
_NONE_OR_TEXT = "Expect one compile for {value} as None, and one for each string"
SAME_OBJECT = (
    "Expect one compile for the calls in which these are one object, and one for those in which they are not"
)
_OFFSET = re.compile(r"(?P<tensor>[^\s()]+)\.storage_offset\(\)")


def _of_offset(failure: GuardFailure) -> str:
    """What to expect of a view that starts elsewhere in its memory."""
    match = _OFFSET.search(failure.difference)
    return (
        "Expect it: torch compiles a view that starts at element 0 or 1 of its memory separately. A copy always starts "
        f"at 0: pass {match['tensor'] if match else 'it'}.clone()"
    )


def _of_state(failure: GuardFailure, *, other_object: bool) -> str | tuple[str, ...]:
    """What to expect of a parameter or a buffer; empty where the words for any tensor hold for it as well."""
    if failure.static is not StaticSizes.STATE:
        return ""
    if failure.cause is GuardCause.REQUIRES_GRAD:
        return _FREEZE
    if failure.cause in {GuardCause.DIMENSION, GuardCause.RANK} and is_of_object(failure) and other_object:
        return _ONE_FOR_EACH_OBJECT
    if failure.cause is GuardCause.DIMENSION:
        return (
            "Expect one compile for each value of {value}: the tensor is a parameter or a buffer of a module"
        )
    return ""


def is_of_object(failure: GuardFailure) -> bool:
    """Whether the guard is on the object that the function belongs to, or on what it holds."""
    return failure.source == "self" or failure.source.startswith(("self.", "self["))


def is_of_array(failure: GuardFailure) -> bool:
    """Whether the guard is on the tensor that torch makes of a NumPy array: nothing marks it."""
    return failure.expression.startswith(_OF_ARRAY)


_OF_ARRAY = ("___from_numpy(", "___as_tensor(")


def fixed_by_torch(failure: GuardFailure) -> bool:
    """Whether the change is to or from a size of 0 or 1, which torch compiles separately by default."""
    if {"0", "1"}.isdisjoint((failure.was, failure.now)):
        return False
    return failure.cause is GuardCause.DIMENSION or is_of_general_code(failure)


def is_of_general_code(failure: GuardFailure) -> bool:
    """Whether the code before serves any size of 2 or more, which it says in a guard: only 0 and 1 fail it."""
    return failure.code.startswith("2 <= ")
