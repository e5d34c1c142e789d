"""What to do about a change that compiles a function again, for each kind of change, with the user's own names.

Invariant: advice only. Nothing here was tried on the user's code, and an argument of torch.compile is named only for
a torch that has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from fuselight.shared.report import ChangeKind, Forecast
from fuselight.shared.version import release
from fuselight_server.explain.findings.advice.advice import rounding
from fuselight_server.explain.findings.common.number_uses import Use

_SIZE = re.compile(r"(?P<tensor>.+)\.size\((?P<dimension>\d+)\)$")
_MARKS = 3
"""Calls that one remedy spells out."""
_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i32": "int32",
    "i64": "int64",
}
_GENERAL = "2 <= "
"""How the guard begins of code that is compiled for any size of 2 or more."""
_PAD = "Or pad to a size of 2 or more, which the compiled code serves, and leave the padding out of results"
_DYNAMIC = "Or compile with torch.compile(..., dynamic=True). Kernels for dynamic sizes can be slower"
_DEPENDS_ON_SIZE = (
    "Pad to a few fixed sizes, or remove the code that depends on this size: "
    "a dynamic size too is compiled once for each way that the code goes"
)


@dataclass(frozen=True)
class Advice:
    """A change that recompiles, and what a remedy has to know of it."""

    change: Forecast
    subject: tuple[str, ...]
    """What changes, as the user would write it."""
    is_users: bool
    """Whether the function is the user's, so that its names are the user's too."""
    ranks: Mapping[str, int]
    """The number of dimensions of each tensor."""
    torch: str
    """The version that ran."""
    may_be_marked: bool = True
    """Whether the call is made by eager code: torch refuses to mark a size inside of compiled code."""
    uses: Collection[Use] = ()
    """What the function does with a number; empty if that is not known."""


def always(text: str) -> Callable[[Advice], tuple[str, ...]]:
    """The same remedy for each change of a kind."""
    return lambda _advice: (text,)


def before_the_call(text: str) -> Callable[[Advice], tuple[str, ...]]:
    """One remedy, with the name of what changes in place of `{0}`."""
    return lambda advice: (text.format(advice.subject[0]),)


def after_break(line: int) -> tuple[str, ...]:
    """What to do about a variable that code after a graph break on `line` was compiled for."""
    return (
        f"Expect it: the code after the graph break on line {line} has guards on the values that cross the break",
    )


def dtype_remedies(advice: Advice) -> tuple[str, ...]:
    """For a dtype."""
    dtype = _DTYPES.get(advice.change.was)
    cast = f".to(torch.{dtype})" if dtype else ".to() of one dtype"
    return (f"Cast before the call: `{advice.subject[0]}{cast}`",)


def size_remedies(advice: Advice) -> tuple[str, ...]:
    """For a size."""
    guard = advice.change.guard
    if "size mismatch" not in guard and not guard.startswith(_GENERAL):
        return (_DEPENDS_ON_SIZE,)
    is_one = advice.change.kind is ChangeKind.SIZE_ONE
    matches = [match for name in advice.subject if (match := _SIZE.match(name)) is not None]
    sizes = [(match["tensor"], int(match["dimension"])) for match in matches]
    spec = _spec(sizes, advice.ranks, advice.torch) if advice.is_users else ""
    mark = "decorators.mark_unbacked" if is_one else "mark_dynamic"
    marks = [_mark_call(*size, ours=advice.is_users, mark=mark) for size in sizes]
    if len(marks) > _MARKS:
        marks[_MARKS - 1 :] = [f"and {len(marks) - _MARKS + 1} more"]
    is_general = guard.startswith(_GENERAL)
    second = _PAD if is_one and is_general else "" if is_one else _DYNAMIC
    last = (
        (
            f"Or compile with torch.compile(..., {spec}), of torch.fx.experimental.dynamic_spec, which fixes each size "
            "that it does not name"
        )
        if spec
        else ""
    )
    unless = ". It does not help where code decides or broadcasts by the size" if is_one else ""
    first = f"Before the first call: {', '.join(marks)}{unless}" if advice.may_be_marked else ""
    return tuple(filter(None, [first, second if first else _first_word_up(second.removeprefix("Or ")), last]))


def _mark_call(name: str, dimension: int, *, ours: bool, mark: str) -> str:
    """The call that marks a size. `ours`: the name is the user's; `mark`: a function of `torch._dynamo`."""
    # What a library's function or a wrapper's *args take has another name at the user's call.
    if ours and not name.startswith(("args[", "kwargs[")):
        return f"torch._dynamo.{mark}({name}, {dimension})"
    return f"torch._dynamo.{mark}(x, {dimension}) for the x that is passed as `{name}`"


def _first_word_up(text: str) -> str:
    return text[:1].upper() + text[1:]


def _spec(sizes: Sequence[tuple[str, int]], ranks: Mapping[str, int], torch: str) -> str:
    """The argument of torch.compile that names the dynamic sizes; empty for a torch without it, and for `args[0]`."""
    if release(torch) < (2, 13):
        return ""
    if (
        not sizes
        or len(sizes) > _MARKS
        or not all(name.isidentifier() and name in ranks for name, _ in sizes)
    ):
        return ""
    keyword = "shapes_spec" if release(torch) == (2, 13) else "dynamic_shapes"
    specs = []
    for name, dimension in sizes:
        entries: list[str] = ["None"] * ranks[name]
        entries[dimension] = 'ShapeVar("n")'
        specs.append(f'"{name}": TensorSpec([{", ".join(entries)}])')
    return f"{keyword}=ParamsSpec({{{', '.join(specs)}}})"


_INTS_OF_MODULES = (
    "Or set torch._dynamo.config.allow_unspec_int_on_nn_module = True, which keeps ints of modules dynamic"
)


def loop_remedies(name: str) -> tuple[str, ...]:
    """For a number or a size that decides how often a loop runs."""
    return (
        f"Compile the body of the loop instead: torch unrolls the loop, so that each `{name}` is compiled",
        f"Or call it with few values of `{name}`",
    )


def number_remedies(advice: Advice) -> tuple[str, ...]:
    """For a number."""
    was, name = advice.change.was, advice.subject[0]
    if _is_fixed(advice.change):
        return (f"Call it with few values of `{name}`: torch needs the value while it traces",)
    tensor = f"Pass `{name}` as a tensor, `torch.tensor({name})`: another value then needs no compile{_rounding(was)}"
    first = _advice_by_use(name, advice.uses) or (tensor,)
    if not _is_int(was) or advice.change.repeats:
        return first
    return (
        *first,
        "Or compile with torch.compile(..., dynamic=True), which keeps ints dynamic, and sizes too",
    )


def _rounding(value: str) -> str:
    words = rounding((value,))
    return f". {words}" if words else ""


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
    Use.SHOWN: "Show `{name}` outside the compiled code: a text of it has to be known while torch traces",
}
"""Uses that accept no tensor, the hardest first."""


def _advice_by_use(name: str, uses: Collection[Use]) -> tuple[str, ...]:
    """What to do about a number that the code uses where a tensor does not do; empty for all others."""
    return tuple(words.format(name=name) for use, words in _BY_USE.items() if use in uses)[:1]


def attribute_remedies(advice: Advice) -> tuple[str, ...]:
    """For an attribute or a global variable."""
    was, name = advice.change.was, advice.subject[0]
    is_number = was not in ("True", "False") and not was.startswith(("'", '"'))
    if not is_number:
        return ("Keep the value fixed, or choose between two functions outside the compiled code",)
    if advice.change.guard.startswith("G["):
        return (f"Pass `{name}` as an argument, or as a tensor",)
    if not name.startswith("self."):
        return (f"Keep `{name}` as a tensor: another value then needs no compile{_rounding(was)}",)
    return (
        f"Keep it as a tensor, `{name} = torch.tensor({was})`: another value then needs no compile{_rounding(was)}",
        *((_INTS_OF_MODULES,) if _is_int(was) and not advice.change.is_loop_count else ()),
    )


def _is_fixed(change: Forecast) -> bool:
    """Whether each value that was tried compiled: neither a tensor nor dynamic=True replaces such a number."""
    compiled = [value.compiles > 0 for value in change.tried if not value.raised]
    return len(compiled) > 1 and all(compiled)


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
