"""The advice for each kind of change that made a guard fail.

Invariant: the kind comes from the report, never from the user's source; for a guard of an unknown kind the advice is to
look at the values shown. To make a number a tensor is advised only where every use of it accepts one, else with that
condition. tests/worker/explain/test_advice.py holds what each advice changes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuselight.shared.report import GuardCause, StaticSizes
from fuselight_server.explain.findings.common.number_uses import Use
from fuselight_server.explain.findings.common.text import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from fuselight.shared.report import GuardFailure


CARRIED = "___stack"
"""How the names begin of values on Python's stack when compiled code resumes after a break."""
_MARKS = 4
"""Most calls of mark_dynamic that one advice spells out."""
_WHOLE = re.compile(r"-?\d+")
_ENVIRON = re.compile(r"\benviron(?:\[|$)")
_READ_OUTSIDE = (
    "Read the variable outside the compiled function and pass it in: each value needs its own compile"
)
_ROOT = re.compile(r"[^\W\d]\w*")
_SLOWER = "Kernels for dynamic sizes can be slower"
"""What a mark, dynamic=True and dynamic parameters cost."""
_STATE_SIZES = (
    "Set torch._dynamo.config.force_parameter_static_shapes = False before the first call: torch otherwise compiles "
    f"once for each size of a parameter or a buffer. {_SLOWER}"
)
ONE_WITH_GRADIENTS = (
    "Expect one compile for tensors that require a gradient, and one for those that do not. Call detach() before the "
    "call only where no gradient has to flow back"
)
_FREEZE = (
    "Freeze parameters, with requires_grad_(False), before the first call",
    "Or expect one compile for each set of parameters that are trained",
)
_ONE_FOR_EACH_OBJECT = (
    (
        "Expect one compile for each such object: all objects of the class share its compiled versions, and this one "
        "has other sizes or parts"
    ),
    (
        "Compile each object with isolate_recompiles=True (torch 2.13 or newer), or call torch._dynamo.reset() "
        "between objects that are not used together: their versions then do not count against the same limit. reset() "
        "drops all compiled code"
    ),
)
_WITHOUT_NONE = "Expect one compile for each case, or always pass a value of one kind in the place of None"
_KEEP_GRADIENTS = (
    "Keep the gradient's tensor between the steps: zero_grad(set_to_none=False), or set it to zero in place. It then "
    "keeps its memory, and writing the zeros takes time"
)
_ZERO_OR_ONE = (
    "Expect one extra compile: torch always compiles a size of 0 or 1 separately, dynamic or not",
    "Or pad to a size of 2 or more",
)
_ADVICE: dict[GuardCause, str | tuple[str, ...]] = {
    GuardCause.RANK: "Call it with a fixed number of dimensions, or compile one function for each",
    GuardCause.DTYPE: "Convert to one dtype before the call, or accept one compile per dtype",
    GuardCause.DEVICE: "Move the tensors to one device before the call",
    GuardCause.REQUIRES_GRAD: ONE_WITH_GRADIENTS,
    GuardCause.STRIDE: "Pass tensors in one memory layout, for example after .contiguous()",
    GuardCause.DISPATCH: "Pass tensors of one kind each time, or expect one compile for each kind",
    GuardCause.VALUE: (
        "Keep the value fixed, choose between functions outside the compiled region, or pass it in as a "
        "tensor"
    ),
    GuardCause.NONE: (
        "Always pass a tensor (an empty or neutral one instead of None), or accept one compile per case"
    ),
    GuardCause.TYPE: "Pass arguments of one type",
    GuardCause.CLASS: (
        (
            "Call torch._dynamo.reset() before each new object, so that compiled versions of earlier classes do not "
            "count against the recompile limit. All compiled code is dropped: what is called again is compiled again"
        ),
        (
            "Or compile each object with isolate_recompiles=True (torch 2.13 or newer): each then has a limit of its "
            "own, and shares no compiled code"
        ),
        "Or define the class once, outside the function: objects of the same sizes and values then share compiled code",
    ),
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


_BY_KIND = {
    "inference tensor": (
        "Create `{name}` under the same mode each time: always inside torch.inference_mode(), or always outside it"
    ),
    "lazily conjugated": "Pass `{name}` without a lazy view: resolve_conj() returns a tensor with its own memory",
    "lazily negated": "Pass `{name}` without a lazy view: resolve_neg() returns a tensor with its own memory",
    "torch.vmap": "Compile the transformed function, as in torch.compile(torch.vmap(f)), instead of `f` alone",
    "torch.func": "Compile the transformed function, as in torch.compile(torch.func.grad(f)), instead of `f` alone",
    "sparse": "Pass `{name}` in one layout each time, for example after to_dense()",
    "quantized": "Pass `{name}` in one form each time, for example after dequantize()",
    "MKL-DNN": "Pass `{name}` in one layout each time, for example after to_dense()",
    "dispatch mode": "Make all calls inside the dispatch mode, or all outside it",
}
"""What to do where a tensor is of another kind, by a part of the words for the kind."""


def _kind_advice(failure: GuardFailure) -> tuple[str, ...]:
    kinds = f"{failure.was} {failure.now}"
    words = next((words for part, words in _BY_KIND.items() if part in kinds), None)
    return () if words is None else (words.format(name=failure.source or "the tensor"),)


def varying_sizes(*failures: GuardFailure) -> tuple[tuple[str, int], ...]:
    """Tensor and dimension of each size that differs and that torch can keep symbolic; a guard may name several."""
    sizes = (
        (size.name, size.dimension)
        for failure in failures
        for size in failure.sizes
        if not size.name.startswith(CARRIED) and {0, 1}.isdisjoint((size.was, size.now))
    )
    return tuple(dict.fromkeys(sizes))


def advice(  # noqa: PLR0911 - one return a kind of failure
    failure: GuardFailure,
    *,
    ours: bool = True,
    also: Collection[GuardFailure] = (),
    unmarked: Collection[tuple[str, int]] = (),
    uses: Collection[Use] = (),
    other_object: bool = False,
) -> tuple[str, ...]:
    """What to do about it. `ours`: the function is in the workspace, so that its names are the user's too.

    `also`: other sizes that changed with it. `unmarked`: sizes that a mark does not help. `uses`: what the function
    does with a number. `other_object`: whether the function belongs to another object than at the compile.
    """
    if failure.static is StaticSizes.STATE and (
        kind_advice := _advice_for_state(failure, other_object=other_object)
    ):
        return kind_advice
    if _ENVIRON.search(failure.source):
        return (_READ_OUTSIDE,)
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    if failure.cause is GuardCause.DIMENSION:
        return _dimension_advice(failure, ours=ours, also=also, unmarked=unmarked)
    if failure.cause is GuardCause.NUMBER:
        return _number_advice(failure, uses)
    if failure.cause is GuardCause.DISPATCH and (kind_advice := _kind_advice(failure)):
        return kind_advice
    if other_object and is_of_object(failure) and failure.cause in _PARTS:
        return _ONE_FOR_EACH_OBJECT
    if failure.cause is GuardCause.DELETED and failure.source.endswith(".grad"):
        return (_KEEP_GRADIENTS,)
    if failure.cause is GuardCause.NONE and not any(
        "tensor" in (value or "") for value in (failure.was, failure.now)
    ):
        return (_WITHOUT_NONE,)
    words = _ADVICE[failure.cause]
    return words if isinstance(words, tuple) else (words,)


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


def is_of_object(failure: GuardFailure) -> bool:
    """Whether the guard is on the object that the function belongs to, or on what it holds."""
    return failure.source == "self" or failure.source.startswith(("self.", "self["))


def _advice_for_state(failure: GuardFailure, *, other_object: bool) -> tuple[str, ...]:
    """What to do about a parameter or a buffer; empty where advice for any tensor holds for it as well."""
    if failure.cause is GuardCause.REQUIRES_GRAD:
        return _FREEZE
    if failure.cause not in {GuardCause.DIMENSION, GuardCause.RANK}:
        return ()
    if is_of_object(failure):
        return _ONE_FOR_EACH_OBJECT if other_object else (_STATE_SIZES,)
    return (
        _STATE_SIZES,
        (
            f"Or pass a plain tensor as {quoted(failure.source or 'the argument')}: the parameter's `.data`, through "
            "which no gradient flows"
        ),
    )


def advice_after_break(
    failure: GuardFailure,
    line: int,
    parameters: Collection[str],
    *,
    uses: Collection[Use] = (),
    other_object: bool = False,
) -> tuple[str, ...]:
    """What to do in a part that starts after the break on `line`.

    A value carried over the break is an input of that part only; the function's `parameters` are inputs without it too.
    """
    if failure.static is StaticSizes.STATE:
        return advice(failure, other_object=other_object)
    if fixed_by_torch(failure):
        return _ZERO_OR_ONE
    if failure.cause is GuardCause.DELETED and CARRIED in failure.code:
        return (
            (
                f"Remove the graph break on line {line}, or do the whole statement outside the compiled code: the "
                "value that waits for the break is created again in each call"
            ),
        )
    root = _ROOT.match(failure.source)
    given = root is not None and root[0] in parameters
    if failure.cause is GuardCause.DIMENSION:
        marked = (
            "ompile with torch.compile(..., dynamic=True), or mark the dimension of the input it comes from with "
            f"torch._dynamo.mark_dynamic. {_SLOWER}"
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
        keep = (
            f"Remove the graph break on line {line}: without it, no element of {quoted(_list_of(name))} is an input of "
            "a compiled part"
            if name.endswith("]")
            else f"Keep {quoted(name)} a tensor, so that no Python number crosses the graph break on line {line}"
        )
        whole = all(_WHOLE.fullmatch(value or "") for value in (failure.was, failure.now))
        return keep, *_kept_symbolic(name, failure, is_whole=whole, uses=uses)
    return advice(failure, uses=uses, other_object=other_object)


def _list_of(name: str) -> str:
    return name.rpartition("[")[0]


def fixed_by_torch(failure: GuardFailure) -> bool:
    """Whether the change is to or from a size of 0 or 1, which torch always compiles separately."""
    if {"0", "1"}.isdisjoint((failure.was, failure.now)):
        return False
    # Code that is compiled for any size of 2 or more says so in a guard.
    return failure.cause is GuardCause.DIMENSION or failure.code.startswith("2 <= ")


def _dimension_advice(
    failure: GuardFailure,
    *,
    ours: bool,
    also: Collection[GuardFailure],
    unmarked: Collection[tuple[str, int]],
) -> tuple[str, ...]:
    sizes = tuple(size for size in varying_sizes(failure, *also) if size not in unmarked)
    if not sizes:
        return (
            (
                f"Compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes. {_SLOWER}; padding adds "
                "work"
            ),
        )
    if (container := _container(sizes)) is not None:
        return (
            (
                f"Keep the tensors in `{container}` at their longest length and write into them: their sizes then "
                "stay, and each call calculates with all of it"
            ),
            (
                f"Or mark dimension {sizes[0][1]} of each of them with torch._dynamo.mark_dynamic before they are "
                "first passed in, and keep their strides the same, as with .contiguous(), which copies them"
            ),
        )
    return (
        mark_words(sizes, ours=ours),
        "Or compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes, which adds work",
    )


def mark_words(sizes: Collection[tuple[str, int]], *, ours: bool) -> str:
    """The advice to mark sizes as dynamic."""
    marks = [mark_call(name, dimension, ours=ours) for name, dimension in sizes]
    if len(marks) > _MARKS:
        marks[_MARKS - 1 :] = [f"and {len(marks) - _MARKS + 1} more"]
    say = (
        "Mark the size as dynamic before the first call"
        if len(sizes) == 1
        else "Mark all these sizes as dynamic before the first call (marking only one is an error where torch finds it "
        "equal to another)"
    )
    return f"{say}: {', '.join(marks)}. {_SLOWER}"


def _container(sizes: Collection[tuple[str, int]]) -> str | None:
    """The list or dict that holds all the tensors, where the same dimension of several changed."""
    names = {name.partition("[")[0] for name, _ in sizes}
    is_one = len(sizes) > 1 and len(names) == 1 and len({dimension for _, dimension in sizes}) == 1
    return names.pop() if is_one and all("[" in name for name, _ in sizes) else None


def mark_call(name: str, dimension: int, *, ours: bool, mark: str = "mark_dynamic") -> str:
    """The call that marks a size. `ours`: the name is the user's; `mark`: a function of `torch._dynamo`."""
    # What a library's function or a wrapper's *args take has another name at the user's call.
    if ours and not name.startswith(("args[", "kwargs[")):
        return f"torch._dynamo.{mark}({name}, {dimension})"
    return f"torch._dynamo.{mark}(x, {dimension}) for the x that is passed as `{name}`"


def _is_closure_variable(failure: GuardFailure) -> bool:
    return "__closure__" in failure.code


def accepts_tensor(uses: Collection[Use]) -> bool:
    """Whether all uses of a number are known, and a tensor does in its place."""
    return bool(uses) and set(uses) == {Use.ARITHMETIC}


_OF_OPTIMIZERS = ("self.state[", "self.param_groups[")


def _number_advice(failure: GuardFailure, uses: Collection[Use]) -> tuple[str, ...]:
    name = failure.source or "the number"
    whole = all(_WHOLE.fullmatch(value or "") for value in (failure.was, failure.now))
    first = advice_by_use(name, uses)
    if first:
        return *first, *_kept_symbolic(name, failure, is_whole=whole, uses=uses)
    condition = "" if accepts_tensor(uses) else " where the code only calculates with it"
    if name.startswith("self."):
        kind = (
            "a tensor" if name.startswith(_OF_OPTIMIZERS) else "a tensor or a buffer (self.register_buffer)"
        )
        make = f"Make `{name}` {kind}{condition}: its value then has no guard"
        return make, *_kept_symbolic(name, failure, is_whole=whole, uses=uses)
    if _is_closure_variable(failure):
        return ("Pass it as an argument, or as a tensor if it varies often: torch fixes closure variables",)
    if failure.code.startswith("G["):
        of_object = "." in failure.source
        if of_object and not whole:
            return (
                "Compile with dynamic=True, which keeps a float of an object symbolic, or make it a tensor",
            )
        what = "integers that a class or a module holds" if of_object else "global numbers"
        return (
            f"Pass it as an argument, or as a tensor if it varies often: torch fixes {what}, even with dynamic=True",
        )
    keep = f"Pass `{name}` as a tensor{condition}: its value then has no guard"
    return keep, *_kept_symbolic(name, failure, is_whole=whole, uses=uses)


_BY_USE = {
    Use.LOOP: "Compile the body of the loop, or call it with few values of `{name}`: torch unrolls the loop for each",
    Use.SLICE: (
        "Slice outside the compiled code and pass the part in, or index with a tensor of positions: `{name}` is a "
        "bound of a slice, which cannot be a tensor"
    ),
    Use.INDEX: (
        "Choose the element outside the compiled code and pass it in, or index a tensor with a tensor: `{name}` is an "
        "index"
    ),
    Use.SIZE: "Pad to a few fixed sizes: `{name}` is a size, which cannot be a tensor",
    Use.CONDITION: (
        "Decide outside the compiled code, or select with torch.where: a condition on `{name}` as a tensor breaks the "
        "graph"
    ),
    Use.PYTHON: (
        "Calculate with `{name}` outside the compiled code and pass in the result as a tensor, or use torch's "
        "functions in the place of Python's, which need the value"
    ),
}
"""Uses that accept no tensor, the hardest first."""
_FIXED_USES = frozenset({Use.LOOP, Use.INDEX, Use.PYTHON})
"""Uses for which torch fixes a symbolic number as well."""


def advice_by_use(name: str, uses: Collection[Use]) -> tuple[str, ...]:
    """What to do about a number that the code uses where a tensor does not do; empty for all others."""
    return tuple(words.format(name=name) for use, words in _BY_USE.items() if use in uses)[:1]


def _kept_symbolic(
    name: str, failure: GuardFailure, *, is_whole: bool, uses: Collection[Use]
) -> tuple[str, ...]:
    """How torch keeps an int symbolic; empty where it does not."""
    if not _FIXED_USES.isdisjoint(uses) or _is_closure_variable(failure) or failure.code.startswith("G["):
        return ()
    if name.startswith("self."):
        setting = (
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True, which keeps module ints symbolic"
        )
        return (f"Or set {setting}",) if is_whole or failure.was is None else ()
    return (
        ("Or compile with torch.compile(..., dynamic=True), which makes ints symbolic, and sizes too",)
        if is_whole
        else ()
    )
