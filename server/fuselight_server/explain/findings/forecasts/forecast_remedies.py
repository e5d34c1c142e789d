"""What to do about a change that compiles a function again, for each kind of change, with the user's own names.

Invariant: advice only. Nothing here was tried on the user's code, and an argument of torch.compile is named only for
a torch that has it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuselight.shared.report import ChangeKind
from fuselight_server.explain.findings.recompilations.guard_causes import mark_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuselight.shared.report import Forecast

_SIZE = re.compile(r"(?P<tensor>.+)\.size\((?P<dimension>\d+)\)$")
_MARKS = 3
"""Calls that one remedy spells out."""
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i32": "int32",
    "i64": "int64",
}
_ANYWAY = {
    ChangeKind.TRAINING: "Expect one compile each for train() and eval(); switch between epochs, not in each step",
    ChangeKind.GRAD_MODE: "Call it under torch.no_grad() always or never, where you can: each mode needs a compile",
    ChangeKind.AUTOCAST: "Make all calls inside the same torch.autocast, or all outside: each state needs a compile",
    ChangeKind.REQUIRES_GRAD: "Pass tensors with the same requires_grad: detach() those that need no gradient",
    ChangeKind.VALUE: "Choose between two functions outside the compiled code, or accept one compile for each value",
}
_DEPENDS_ON_SIZE = (
    "Pad to a few fixed sizes, or remove the code that depends on this size: "
    "even a dynamic size compiles again for each outcome"
)


def remedies(
    one: Forecast, subject: Sequence[str], *, is_users: bool, ranks: Mapping[str, int], torch: str
) -> tuple[str, ...]:
    """What to do about a change that recompiles, the best first.

    `is_users`: the function is the user's, so that its names are the user's too. `ranks`: the number of dimensions of
    each tensor. `torch`: the version that ran.
    """
    if one.is_loop_count or one.kind in _ANYWAY:
        return _loop_remedies(subject[0]) if one.is_loop_count else (_ANYWAY[one.kind],)
    if one.kind in (ChangeKind.SIZE, ChangeKind.SIZE_ONE):
        # Code that is compiled for any size of 2 or more says so in a guard.
        if "size mismatch" not in one.guard and not one.guard.startswith("2 <= "):
            return (_DEPENDS_ON_SIZE,)
        return _size_remedies(one.kind, subject, is_users=is_users, ranks=ranks, torch=torch)
    if one.kind is ChangeKind.NUMBER:
        return _number_remedies(one, subject[0])
    if one.kind is ChangeKind.ATTRIBUTE:
        return _attribute_remedies(one, subject[0])
    return (_before_the_call(one, subject[0]),)


def after_break(line: int) -> tuple[str, ...]:
    """What to do about a variable that code after a graph break on `line` was compiled for."""
    return (
        f"Remove the graph break on line {line}: the code after it has guards on the values that cross it",
    )


def _before_the_call(one: Forecast, name: str) -> str:
    if one.kind is ChangeKind.STRIDES:
        return f"Pass one memory layout: `{name}.contiguous()` before the call"
    if one.kind is ChangeKind.DTYPE:
        dtype = _DTYPES.get(one.was)
        return f"Cast before the call: `{name}{f'.to(torch.{dtype})' if dtype else '.to() of one dtype'}`"
    return f"Stack the items into one tensor, or pad to a fixed length: `torch.stack({name})`"


def _size_remedies(
    kind: ChangeKind, subject: Sequence[str], *, is_users: bool, ranks: Mapping[str, int], torch: str
) -> tuple[str, ...]:
    matches = [found for name in subject if (found := _SIZE.match(name)) is not None]
    sizes = [(one["tensor"], int(one["dimension"])) for one in matches]
    spec = _spec(sizes, ranks, torch) if is_users else ""
    mark = "mark_dynamic" if kind is ChangeKind.SIZE else "decorators.mark_unbacked"
    marks = [mark_call(*size, ours=is_users, mark=mark) for size in sizes]
    if len(marks) > _MARKS:
        marks[_MARKS - 1 :] = [f"and {len(marks) - _MARKS + 1} more"]
    second = (
        "Or compile with torch.compile(..., dynamic=True)"
        if kind is ChangeKind.SIZE
        else "Or pad to a size of 2 or more: torch compiles a size of 1 separately"
    )
    last = (
        f"Or compile with torch.compile(..., {spec}), of torch.fx.experimental.dynamic_spec" if spec else ""
    )
    return tuple(filter(None, [f"Before the first call: {', '.join(marks)}", second, last]))


def _spec(sizes: Sequence[tuple[str, int]], ranks: Mapping[str, int], torch: str) -> str:
    """The argument of torch.compile that names the dynamic sizes; empty for a torch without it, and for `args[0]`."""
    release = _RELEASE.match(torch)
    if release is None or (int(release[1]), int(release[2])) < (2, 13):
        return ""
    if (
        not sizes
        or len(sizes) > _MARKS
        or not all(name.isidentifier() and name in ranks for name, _ in sizes)
    ):
        return ""
    keyword = "shapes_spec" if (int(release[1]), int(release[2])) == (2, 13) else "dynamic_shapes"
    specs = []
    for name, dimension in sizes:
        entries: list[str] = ["None"] * ranks[name]
        entries[dimension] = 'ShapeVar("n")'
        specs.append(f'"{name}": TensorSpec([{", ".join(entries)}])')
    return f"{keyword}=ParamsSpec({{{', '.join(specs)}}})"


def _loop_remedies(name: str) -> tuple[str, ...]:
    """For a number or a size that decides how often a loop runs."""
    return (
        f"Compile the body of the loop instead: torch unrolls the loop, so that each `{name}` is compiled",
        f"Or call it with few values of `{name}`",
    )


def _number_remedies(one: Forecast, name: str) -> tuple[str, ...]:
    tensor = f"Pass `{name}` as a tensor, `torch.tensor({name})`: its value has no guard"
    if "." in one.was or "e" in one.was or "n" in one.was:  # a float; inf and nan too
        return (tensor,)
    return tensor, "Or compile with torch.compile(..., dynamic=True), which keeps ints symbolic"


def _attribute_remedies(one: Forecast, name: str) -> tuple[str, ...]:
    is_number = one.was not in ("True", "False") and not one.was.startswith(("'", '"'))
    if not is_number:
        return ("Keep the value fixed, or choose between two functions outside the compiled code",)
    if not name.startswith("self."):
        return (f"Pass `{name}` as an argument, or as a tensor: torch fixes global numbers",)
    attribute = name.rpartition(".")[2]
    return (
        f'Make it a buffer: `self.register_buffer("{attribute}", torch.tensor({one.was}))`',
        "Or set torch._dynamo.config.allow_unspec_int_on_nn_module = True, which keeps module ints symbolic",
    )
