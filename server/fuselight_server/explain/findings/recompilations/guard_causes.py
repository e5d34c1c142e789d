"""Words about a number by its uses, and the call that marks a size: for forecasts, where nothing was run.

Invariant: the words are chosen by what the function does with the number; none says that it was tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.explain.findings.common.number_uses import Use

if TYPE_CHECKING:
    from collections.abc import Collection


def mark_call(name: str, dimension: int, *, ours: bool, mark: str = "mark_dynamic") -> str:
    """The call that marks a size. `ours`: the name is the user's; `mark`: a function of `torch._dynamo`."""
    # What a library's function or a wrapper's *args take has another name at the user's call.
    if ours and not name.startswith(("args[", "kwargs[")):
        return f"torch._dynamo.{mark}({name}, {dimension})"
    return f"torch._dynamo.{mark}(x, {dimension}) for the x that is passed as `{name}`"


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


def advice_by_use(name: str, uses: Collection[Use]) -> tuple[str, ...]:
    """What to do about a number that the code uses where a tensor does not do; empty for all others."""
    return tuple(words.format(name=name) for use, words in _BY_USE.items() if use in uses)[:1]
