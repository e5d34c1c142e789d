"""FL941: accesses of the user's own Triton kernels outside of their tensors.

Invariant: each finding is an access that the run computed with the kernel's own arguments; none is a guess from source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.finding import Related
from fuselight_server.explain.findings.common.context import span_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import KernelFault
    from fuselight_server.base.finding import Finding
    from fuselight_server.explain.findings.common.context import Context

_VERBS = {"load": "reads", "store": "writes", "atomic": "changes"}
_HAPPENED = {
    "load": "On a GPU this reads other memory, or ends the program with an illegal memory access.",
    "store": "On a GPU this overwrites other memory, or ends the program with an illegal memory access.",
    "atomic": "On a GPU this overwrites other memory, or ends the program with an illegal memory access.",
}
_INT32 = 1 << 31


def launch_findings(context: Context) -> Iterator[Finding]:
    """The accesses outside of tensors, each on the line of the kernel; of a library's kernel, where it is launched."""
    for fault in context.report.kernel_faults:
        launch = context.innermost_user_frame(fault.launch)
        inside = context.is_user_file(fault.location.path)
        place = fault.location if inside or launch is None else launch
        related = []
        if inside and launch is not None:
            related.append(Related(span_of(launch), f"`{fault.kernel}` is launched here"))
        elif not inside:
            related.append(Related(span_of(fault.location), f"`{fault.kernel}`, of a library"))
        yield context.finding(
            "FL941",
            f"`{fault.kernel}` {_VERBS.get(fault.access, 'accesses')} {_element(fault)}",
            f"Program {fault.program} does, {_mask(fault)}.",
            _HAPPENED.get(fault.access, _HAPPENED["store"]),
            "Here it did not happen: such a read gave 0, such a write was left out.",
            at=place,
            hints=_hints(fault),
            related=tuple(related),
        )


def _element(fault: KernelFault) -> str:
    if not fault.argument:
        return "an address that is outside of all its tensors"
    count = f"{fault.elements:,} element{'' if fault.elements == 1 else 's'}"
    return f"`{fault.argument}[{fault.offset}]`, and `{fault.argument}` has {count}"


def _mask(fault: KernelFault) -> str:
    return "in spite of its mask" if fault.masked else "and the access has no mask"


def _hints(fault: KernelFault) -> tuple[str, ...]:
    if fault.offset <= -_INT32 // 2:
        return ("Compute the offset in 64 bits: `tl.program_id(0).to(tl.int64)`; in 32 bits it overflows.",)
    if not fault.masked:
        return (
            f"Give tl.{'atomic_add' if fault.access == 'atomic' else fault.access} a mask: `mask=offsets < n`.",
        )
    return ("Compare the offsets that the mask lets through with the size that is passed to the kernel.",)
