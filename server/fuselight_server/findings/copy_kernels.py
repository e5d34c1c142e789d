"""FL706: kernels that only copy, as for `contiguous()` or for the layout that a library wants.

Invariant: a kernel counts that stores what it loads and is bound by memory; one finding for each line and cause, and
only from a share of the target's time on. A copy that the program asks for by name (`copy_`, `cat`) is no finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import is_library_call
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.text import compose
from fuselight_server.formatting import format_estimate, format_percent, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Kernel, Location, Stack
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

_CLONE = "aten.clone.default"
_VIEWS = frozenset({
    "aten._unsafe_view", "aten.alias", "aten.as_strided", "aten.diagonal", "aten.expand", "aten.permute",
    "aten.reshape", "aten.select", "aten.slice", "aten.split", "aten.split_with_sizes", "aten.squeeze", "aten.t",
    "aten.transpose", "aten.unbind", "aten.unfold", "aten.unsqueeze", "aten.view",
})  # fmt: skip
_CONVOLUTION = "aten.convolution"
_MULTIPLICATIONS = frozenset({"aten.addmm", "aten.baddbmm", "aten.bmm", "aten.mm"})
_HINTS_CLONE: tuple[str, ...] = (
    "Remove `contiguous()` or `clone()` if the next operator accepts any layout, as generated kernels do",
    "Or create the tensor in the order in which it is read; `reshape` of a transposed tensor also copies",
)
_HINTS_CONVOLUTION = (
    "Use channels_last for the model and its inputs: `model.to(memory_format=torch.channels_last)`",
)
_HINTS_LIBRARY = ("Pass the operator a contiguous tensor, without a transpose or slice before it",)


def copy_findings(context: Context) -> Iterator[Finding]:
    """A finding for each line whose copies take a share of the time."""
    least, whole = context.thresholds.kernel_share, context.estimated_us
    if not least or not whole:
        return
    groups: dict[tuple[Location | None, str], list[tuple[Kernel, Stack]]] = {}
    for graph in context.report.generated:
        for kernel in graph.kernels:
            cause = _cause(kernel)
            if cause is None:
                continue
            stack = _place(kernel, cause)
            home = context.innermost_user_frame(stack)
            place = home and type(home)(home.path, home.line)
            groups.setdefault((place, cause), []).append((kernel, stack))
    for (_, cause), group in groups.items():
        if sum(kernel.estimate_us or 0 for kernel, _ in group) >= whole * least:
            yield _finding(context, cause, group)


def _cause(kernel: Kernel) -> str | None:
    """`aten.clone`, or the library's operator that the copy is made for; None for what is no copy of that kind."""
    if not kernel.copies or kernel.bound != "memory":
        return None
    computing = [one.name for one in kernel.operators if _short(one.name) not in _VIEWS]
    library = [name for name in computing if is_library_call(name) or _short(name) in _MULTIPLICATIONS]
    if library:
        return _short(library[-1])
    return _short(_CLONE) if computing and set(computing) == {_CLONE} else None


def _place(kernel: Kernel, cause: str) -> Stack:
    """Of the operator that the copy is for: the last of a library's, whose origins hold those of its inputs, too."""
    stacks = [one.stack for one in kernel.operators if _short(one.name) == cause and one.stack]
    return next(iter(stacks if cause == _short(_CLONE) else reversed(stacks)), ())


def _finding(context: Context, cause: str, group: list[tuple[Kernel, Stack]]) -> Finding:
    stack = group[0][1]
    home = context.innermost_user_frame(stack)
    kernels = [kernel for kernel, _ in group]
    moved = sum((one.bytes_read or 0) + (one.bytes_written or 0) for one in kernels)
    us = sum(one.estimate_us or 0 for one in kernels)
    on = context.report.target_device
    time = f"likely {format_estimate(us)} on {on.name if on else 'the device'}"
    cost = (
        f"{'1 launch' if len(kernels) == 1 else f'{len(kernels)} launches'}: {format_size(moved)} read and written",
        f"{time}, {format_percent(us, context.estimated_us)} of the target's kernel time",
    )
    clone = cause == _short(_CLONE)
    if clone:
        title, what = "a kernel only copies here", "The kernel copies a tensor"
        hints = _HINTS_CLONE
    else:
        title = f"a kernel only copies here, for the layout that `{cause}` requires"
        what = f"The kernel copies a tensor to the layout that the library's `{cause}` requires"
        hints = _HINTS_CONVOLUTION if cause == _CONVOLUTION else _HINTS_LIBRARY
    return context.finding(
        "FL706",
        title=title,
        message=compose(f"{what} and computes nothing.", cost=cost, hints=hints),
        span=span_of(home) if home else context.target_span(),
        hints=hints,
        related=trail(stack, without=home, verb="in"),
        count=len(kernels),
        cost=cost,
        cost_us=us,
    )


def _short(name: str) -> str:
    """`aten.clone.default` as `aten.clone`."""
    return ".".join(name.split(".")[:2])
