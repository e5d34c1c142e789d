"""FL941 to FL945, FL948, FL950, FL607: what is wrong with accesses of the user's Triton kernels, and what is open.

Invariant: each finding is an access that the run computed with the kernel's own arguments; none is a guess from source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fuselight.shared.report import (
    AddressCheckResult,
    KernelFault,
    KernelMismatch,
    Location,
    Stack,
    file_name,
)
from fuselight_server.base.finding import Finding, Related, Severity
from fuselight_server.explain.findings.common.context import Context, span_of

_VERBS = {"load": "reads", "store": "writes", "atomic": "changes"}
_CHANGES = "On a GPU this overwrites other memory, or ends the program with an illegal memory access."
_HAPPENED = {
    "load": "On a GPU this reads other memory, or ends the program with an illegal memory access.",
    "store": _CHANGES,
    "atomic": _CHANGES,
}
_INT32 = 1 << 31
_IN_64_BITS = "Compute the offset in 64 bits: `tl.program_id(0).to(tl.int64)`; in 32 bits it overflows."
_NOT_OF_THE_DIRECTIVE = (
    "The call of the directive does not show this. Fuselight also makes calls with other sizes, strides and, for a "
    "reference, signs."
)
_SIZES = (
    "If the kernel is only for sizes like those of the directive, raise an exception for others before the launch: "
    "such calls have no finding."
)
_STRIDES = (
    "Pass the strides of each tensor to the kernel. If it is only for contiguous tensors, raise an exception for "
    "others before the launch, or call `contiguous()`."
)
_MAX_LISTED = 4
"""Maximum lines that a hint lists."""


class _Words(NamedTuple):
    code: str
    title: str
    details: tuple[str, ...]
    hints: tuple[str, ...]


def launch_findings(context: Context) -> Iterator[Finding]:
    """The faults, each on the line of the kernel; of a library's kernel, where it is launched."""
    for fault in context.report.kernel_faults:
        describe = _KINDS.get(fault.kind)
        if describe is None:  # of a newer worker
            continue
        words = describe(fault)
        place, related = _place(context, fault.kernel, fault.location, fault.launch)
        if fault.kind == "sectors" and not context.is_user_file(fault.location.path):
            continue  # nobody changes a library's layout
        title, severity, hints = words.title, None, words.hints
        shown_by: tuple[str, ...] = ()
        if fault.is_of_variation:
            title, severity = title + _other_call(fault), Severity.WARNING
            shown_by = (_NOT_OF_THE_DIRECTIVE,)
            hints = (_STRIDES,) if fault.has_other_strides else (*hints, _SIZES)
        elif fault.inputs:
            shown_by = (f"The smallest call that was tried and shows it is `{fault.inputs}`.",)
        yield context.finding(
            words.code,
            title,
            *words.details,
            *shown_by,
            at=place,
            hints=hints,
            related=related,
            severity=severity,
        )
    yield from _mismatch_findings(context)
    yield from _open_findings(context)


def _place(
    context: Context, kernel: str, location: Location, stack: Stack
) -> tuple[Location, tuple[Related, ...]]:
    launch = context.innermost_user_frame(stack)
    if context.is_user_file(location.path):
        if launch is None:
            return location, ()
        return location, (Related(span_of(launch), f"`{kernel}` is launched here"),)
    return launch or location, (Related(span_of(location), f"`{kernel}`, of a library"),)


def _other_call(wrong: KernelFault | KernelMismatch) -> str:
    has_other_signs = getattr(wrong, "has_other_signs", False)  # of a mismatch only
    what = "strides" if wrong.has_other_strides else "signs" if has_other_signs else "sizes"
    return f", in a call with other {what}: `{wrong.inputs}`"


def _bounds(fault: KernelFault) -> _Words:
    return _Words(
        "FL941",
        f"`{fault.kernel}` {_VERBS.get(fault.access, 'accesses')} {_element(fault)}",
        (
            f"Program {fault.program} makes this access{_mask(fault)}.",
            _HAPPENED.get(fault.access, _CHANGES),
            "Here it did not happen: such a read gave 0, such a write was left out.",
        ),
        _bounds_hints(fault),
    )


def _element(fault: KernelFault) -> str:
    if not fault.argument:
        return "an address that is outside of all its tensors"
    count = f"{fault.elements:,} element{'' if fault.elements == 1 else 's'}"
    return f"`{fault.argument}[{fault.offset}]`, and `{fault.argument}` has {count}"


def _mask(fault: KernelFault) -> str:
    if fault.kind == "descriptor":
        return ", which is inside of the shape of its tensor descriptor"
    return ", which its mask lets through" if fault.masked else ", which has no mask"


def _bounds_hints(fault: KernelFault) -> tuple[str, ...]:
    if fault.offset <= -_INT32 // 2:
        return (_IN_64_BITS,)
    if fault.kind == "descriptor":
        return ("Make the tensor descriptor with the sizes and the strides of the tensor.",)
    if not fault.masked:
        return (
            f"Give tl.{'atomic_add' if fault.access == 'atomic' else fault.access} a mask: `mask=offsets < n`.",
        )
    return ("Compare the offsets that the mask lets through with the size that is passed to the kernel.",)


def _overflow(fault: KernelFault) -> _Words:
    verb, name = _VERBS.get(fault.access, "accesses"), fault.argument
    return _Words(
        "FL944",
        f"`{fault.kernel}` {verb} `{name}[{fault.offset}]` in place of `{name}[{fault.exact}]`: its offset overflows",
        (
            f"Program {fault.program} computes the offset in 32 bits, which end at {_INT32 - 1}.",
            _HAPPENED.get(fault.access, _CHANGES),
        ),
        (_IN_64_BITS,),
    )


def _race(fault: KernelFault) -> _Words:
    element = f"`{fault.argument}[{fault.offset}]`"
    more = f", {fault.count:,} elements in this way" if fault.count > 1 else ""
    if fault.program == fault.other_program:
        title = f"`{fault.kernel}` writes several values to {element} at once"
        details = f"Lanes of one block in program {fault.program} write it{more}. Which value remains is not defined."
    elif fault.other_access == "load":
        title = f"a program of `{fault.kernel}` reads {element}, which another one changes"
        details = (
            f"Program {fault.other_program} reads it and program {fault.program} writes it{more}. Programs run in any "
            "order: which value is read is not defined."
        )
    else:
        title = f"programs of `{fault.kernel}` write different values to {element}"
        details = (
            f"Programs {fault.other_program} and {fault.program} write it{more}. Programs run in any order: "
            "which value remains is not defined."
        )
    hint = "Let each program have elements of its own: compare the steps of the offsets with the block and the grid."
    return _Words("FL942", title, (details,), (hint, "For sums use `tl.atomic_add`."))


def _unwritten(fault: KernelFault) -> _Words:
    name, count = fault.argument, fault.count
    some = f"{count:,} element{'' if count == 1 else 's'} of `{name}`"
    return _Words(
        "FL943",
        f"`{fault.kernel}` leaves {some} unwritten, from `{name}[{fault.offset}]` on",
        (
            f"`{name}` was allocated without values, and the program uses these elements after the launch.",
            "On a GPU they have whatever was in that memory.",
        ),
        (
            "Compare the grid and the mask of the store with the size of the tensor, or allocate it with zeros.",
        ),
    )


def _sectors(fault: KernelFault) -> _Words:
    verb = {"load": "reads", "store": "writes"}.get(fault.access, "changes")
    part = f"{fault.useful:.0%}"
    return _Words(
        "FL945",
        f"`{fault.kernel}` uses {part} of the bytes that it fetches of `{fault.argument}`",
        (
            f"Program {fault.program} {verb} single elements of 32-byte sectors.",
            f"A GPU moves whole sectors, so that {100 - round(fault.useful * 100)}% of this traffic is wasted.",
            "The loss is smaller where other programs find the sectors in a cache.",
        ),
        (
            "Let neighboring lanes access neighboring elements: swap the dimensions of the block, or the layout.",
        ),
    )


def _left_out(fault: KernelFault) -> _Words:
    what, sign, infinity = {
        "max": ("maximum", "negative", '`other=-float("inf")`; for integers, with the smallest one.'),
        "min": ("minimum", "positive", '`other=float("inf")`; for integers, with the largest one.'),
    }[fault.access]
    title = f"a {what} in `{fault.kernel}` counts elements of `{fault.argument}` that a mask leaves out"
    loaded = f"Program {fault.program} loads 0 for them, or an undefined value if the load has no `other=`."
    effect = f"Where all others are {sign}, the {what} is this 0."
    return _Words("FL950", title, (loaded, effect), (f"Load with {infinity}",))


_KINDS: dict[str, Callable[[KernelFault], _Words]] = {
    "bounds": _bounds,
    "descriptor": _bounds,
    "overflow": _overflow,
    "race": _race,
    "unwritten": _unwritten,
    "sectors": _sectors,
    "left out": _left_out,
}


def _mismatch_findings(context: Context) -> Iterator[Finding]:
    """Results that differ from a reference, where the last kernel of the call is launched.

    What differs at the directive's own sizes is not said again for other sizes.
    """
    mismatches = context.report.kernel_mismatches
    own = {(wrong.kernel, wrong.reference) for wrong in mismatches if not wrong.is_of_variation}
    for mismatch in mismatches:
        if mismatch.is_of_variation and (mismatch.kernel, mismatch.reference) in own:
            continue
        launch = context.innermost_user_frame(mismatch.launch)
        home = mismatch.location
        related: tuple[Related, ...] = ()
        if launch is not None and home is not None:
            related = (Related(span_of(home), f"`{mismatch.kernel}` is defined here"),)
        where = f"[{', '.join(map(str, mismatch.index))}]" if mismatch.index else ""
        yield context.finding(
            "FL948",
            f"{mismatch.count:,} of {mismatch.elements:,} elements differ from `{mismatch.reference}`"
            + (_other_call(mismatch) if mismatch.is_of_variation else ""),
            f"Tensor {mismatch.output} has {mismatch.value:.6g} at {where or 'its only element'}, and "
            f"`{mismatch.reference}` gives {mismatch.expected:.6g}.",
            f"The largest difference is {mismatch.largest:.3g}; up to {mismatch.allowed:.3g} is rounding.",
            _NOT_OF_THE_DIRECTIVE if mismatch.is_of_variation else f"The call is `{mismatch.inputs}`.",
            at=launch or home,
            severity=Severity.WARNING if mismatch.is_of_variation else None,
            hints=(
                _STRIDES
                if mismatch.has_other_strides
                else "Compare the mask, the `other=` values and the strides of the kernel with the reference.",
            ),
            related=related,
        )


def _open_findings(context: Context) -> Iterator[Finding]:
    """What address checks have not checked, once for each line that launches."""
    by_line: dict[Location, list[AddressCheckResult]] = {}
    for check in context.report.address_checks:
        if not check.is_complete or check.open:
            launch = context.innermost_user_frame(check.launch)
            by_line.setdefault(launch or check.location, []).append(check)
    for place, checks in by_line.items():
        kernels = sorted({check.kernel for check in checks})
        title = f"not every access of {_listed([f'`{kernel}`' for kernel in kernels])} was checked"
        lines = dict.fromkeys(line for check in checks for line in _open_lines(check))
        yield context.finding(
            "FL607",
            title,
            f"Addresses were checked without values: {_listed(list(dict.fromkeys(map(_programs, checks))))}.",
            *((f"Not checked: {_listed(list(lines), '; ')}.",) if lines else ()),
            at=place,
        )


def _programs(check: AddressCheckResult) -> str:
    if not check.total:  # an operator that does not run on fake tensors
        return f"no launch of `{check.kernel}`"
    if check.programs < check.total:
        return f"{check.programs:,} of {check.total:,} programs of `{check.kernel}`"
    every = "every program" if check.total > 1 else "the program"
    return f"{every} of `{check.kernel}`" + (
        "" if check.is_complete else ", without some iterations of its loops"
    )


def _open_lines(check: AddressCheckResult) -> Iterator[str]:
    for access in check.open:
        if access.location is None:
            what = "the rest" if check.total else "the launches"
            yield f"{what} of `{check.kernel}` ({access.reason})"
        else:
            yield f"{file_name(access.location.path)}:{access.location.line} ({access.reason})"


def _listed(items: list[str], separator: str = ", ") -> str:
    shown = items[:_MAX_LISTED]
    if len(items) > _MAX_LISTED:
        shown.append(f"{len(items) - _MAX_LISTED} more")
    return separator.join(shown)
