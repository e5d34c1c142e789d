"""FL961 to FL967: what the compiler shows of the user's own Triton kernels.

Invariant: each finding is a fact of the compiled form for the run's own arguments and device. A change that a hint
calls `tried` was compiled, and its figures are those of that compile.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight.shared.devices import rate
from fuselight.shared.kernel_forms import DotUse, Float64Use, MemoryAccess, dots, float64_use, memory_accesses
from fuselight.shared.kernel_options import is_low
from fuselight.shared.report import Assembled, CompiledOption, Location, OwnKernel
from fuselight_server.base.finding import Finding, Related
from fuselight_server.base.formatting import format_list, format_percent
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.kernels.own_kernels import (
    by_function,
    is_refused,
    is_unfinished,
    resource_words,
    short_specialization,
)

_WGMMA_ROWS = 64
"""Rows of the left operand that Hopper's matrix instruction multiplies at least."""
_WGMMA_WARPS = 4
_HOPPER = (9, 0)
_SLOW_FLOAT64 = 8
"""How much faster float32 is on a device that is not made for float64."""
_MATRIX_DTYPES = ("f32", "f16", "bf16", "i8")


def own_kernel_findings(context: Context) -> Iterator[Finding]:
    """What is said of each kernel, once for a line: that of its specialization with the most launches."""
    reported: set[tuple[str, str, int, str]] = set()
    for kernels in by_function(context.report.own_kernels).values():
        for kernel in kernels:
            if kernel.library or not context.is_user_file(kernel.location.path):
                continue
            for finding in _of_kernel(context, kernel):
                key = (finding.code, finding.span.path, finding.span.line, finding.title)
                if key not in reported:
                    reported.add(key)
                    yield finding


def _of_kernel(context: Context, kernel: OwnKernel) -> Iterator[Finding]:
    assembled = kernel.assembled
    if assembled is not None and is_refused(assembled):
        yield _refused(context, kernel, assembled)
    elif assembled is not None and assembled.failure is None:
        if assembled.spills:
            yield _spills(context, kernel, assembled)
        uses = dots(assembled)
        if is_low(assembled) and not any(use.instruction for use in uses):
            yield _few_warps(context, kernel, assembled)
        for access in memory_accesses(assembled):
            yield from _narrow(context, kernel, access)
        for use in uses:
            yield from _slow_dot(context, kernel, use)
        wide = float64_use(assembled)
        if wide is not None:
            yield from _float64(context, kernel, wide)
    for name in kernel.unused:
        yield _unused(context, kernel, name)


def _device(context: Context) -> str:
    device = context.report.own_kernels_device
    return device.key if device is not None else "the device"


def _launched(context: Context, kernel: OwnKernel) -> tuple[Related, ...]:
    launch = context.innermost_user_frame(kernel.launched_at)
    return (Related(span_of(launch), f"`{kernel.name}` is launched here"),) if launch is not None else ()


def _for(kernel: OwnKernel) -> str:
    return f"Compiled for {short_specialization(kernel)}."


def _refused(context: Context, kernel: OwnKernel, assembled: Assembled) -> Finding:
    line = assembled.failure_line or kernel.location.line
    return context.finding(
        "FL961",
        f"`{kernel.name}` does not compile for {_device(context)}",
        f"{assembled.failure}.".replace("..", "."),
        _for(kernel),
        "A launch on this device raises this error.",
        at=Location(kernel.location.path, line),
        related=_launched(context, kernel),
    )


def _spills(context: Context, kernel: OwnKernel, assembled: Assembled) -> Finding:
    better = [
        option
        for option in kernel.options
        if option.failure is None and option.spills is not None and option.spills < (assembled.spills or 0)
    ]
    better.sort(key=lambda option: (option.spills or 0, option.registers or 0))
    return context.finding(
        "FL962",
        f"`{kernel.name}` spills {assembled.spills} bytes of registers on {_device(context)}",
        "A thread's values do not fit into its registers: it keeps these bytes in memory.",
        _for(kernel),
        at=kernel.location,
        hints=_hints(kernel, better, "Use smaller blocks, or keep fewer values alive at the same time."),
        related=_launched(context, kernel),
    )


def _few_warps(context: Context, kernel: OwnKernel, assembled: Assembled) -> Finding:
    occupancy = assembled.occupancy
    if occupancy is None:
        raise ValueError("a kernel without an occupancy has no low one")
    cause = (
        f"each thread takes {assembled.registers} registers"
        if occupancy.limited_by == "registers"
        else f"each program takes {assembled.shared:,} bytes of shared memory"
    )
    better = [
        option
        for option in kernel.options
        if option.failure is None and option.occupancy is not None and not option.spills
        and option.occupancy.warps > occupancy.warps
    ]  # fmt: skip
    better.sort(key=lambda option: -(option.occupancy.warps if option.occupancy is not None else 0))
    return context.finding(
        "FL963",
        f"{occupancy.warps} of {occupancy.most} warps of `{kernel.name}` fit on a multiprocessor of {_device(context)}",
        f"Occupancy is {format_percent(occupancy.warps, occupancy.most)}, because {cause}.",
        _for(kernel),
        at=kernel.location,
        hints=_hints(kernel, better, "Use smaller blocks."),
        related=_launched(context, kernel),
    )


def _hints(kernel: OwnKernel, better: list[CompiledOption], otherwise: str) -> tuple[str, ...]:
    """What was tried and is better, best first; else what to do, and what was tried in vain."""
    if better:
        return tuple(f"{_option(option)} (tried)." for option in better[:2])
    tried = [
        f"`{option.option}={option.value}`"
        for option in kernel.options
        if option.option.startswith("num_") and not is_unfinished(option.failure or "")
    ]
    return (otherwise, f"Tried without success: {format_list(tried)}.") if tried else (otherwise,)


def _option(option: CompiledOption) -> str:
    words = resource_words(option.registers, option.spills, option.shared, option.occupancy)
    return f"`{option.option}={option.value}`: {', '.join(words)}"


def _narrow(context: Context, kernel: OwnKernel, access: MemoryAccess) -> Iterator[Finding]:
    """An access with instructions that are narrower than its layout, where an assumption is the cause."""
    name = f"{'store' if access.is_store else 'load'} {access.line}"
    causes = [
        option
        for option in kernel.options
        if option.failure is None and option.widths.get(name, 0) > access.width
    ]
    if access.width >= access.possible or not causes:
        return
    cause = max(causes, key=lambda option: option.widths[name])
    is_pointer = kernel.types.get(cause.option, "").startswith("*")
    value = kernel.values.get(cause.option)
    verb = "stores" if access.is_store else "loads"
    if is_pointer:
        why = f"the address in `{cause.option}` is not a multiple of 16"
        hint = "Pass a tensor that begins at a multiple of 16 bytes: a slice such as `x[1:]` does not."
    else:
        why = f"Triton does not know `{cause.option}` to be a multiple of 16" + (
            f": it is {value}" if value else ""
        )
        hint = (
            f"Pad the tensors, so that `{cause.option}` is a multiple of 16, or load whole blocks without a mask and "
            "the last one apart."
            if value and value.lstrip("-").isdigit() and int(value) % 16
            else f"If it always is, say so in the kernel: `{cause.option} = tl.multiple_of({cause.option}, 16)`."
        )
    yield context.finding(
        "FL964",
        f"`{kernel.name}` {verb} {access.width} bytes with an instruction, where {access.possible} would fit",
        f"The reason: {why}.",
        f"With a multiple of 16, it {verb} {cause.widths[name]} bytes (tried).",
        _for(kernel),
        at=Location(kernel.location.path, access.line),
        hints=(hint,),
        related=_launched(context, kernel),
    )


def _slow_dot(context: Context, kernel: OwnKernel, use: DotUse) -> Iterator[Finding]:
    m, n, k = use.sides
    device = context.report.own_kernels_device
    if device is None or use.dtype not in _MATRIX_DTYPES:
        return
    if not use.instruction:
        is_exact = use.dtype == "f32" and use.precision == "ieee" and device.backend == "cuda"
        reason = (
            '`input_precision="ieee"` computes float32 exactly'
            if is_exact
            else f"its tile is {m} x {n} x {k}"
        )
        hint = (
            '`input_precision="tf32"` rounds the operands to 10 bits; `"tf32x3"` is nearly exact, and uses tensor '
            "cores, too."
            if is_exact
            else "Use a tile with larger sides, or operands of bfloat16."
        )
        title = f"`tl.dot` in `{kernel.name}` uses no matrix instructions on {device.key}"
    elif use.instruction == "mma.sync" and device.capability == _HOPPER and device.backend == "cuda":
        warps = kernel.num_warps or _WGMMA_WARPS
        if m >= _WGMMA_ROWS and warps >= _WGMMA_WARPS:
            return  # another reason, which the text does not name
        reason = (
            f"its tile has {m} rows, and `wgmma` multiplies {_WGMMA_ROWS} or more"
            if m < _WGMMA_ROWS
            else f"the kernel has {warps} warps, and `wgmma` takes {_WGMMA_WARPS}"
        )
        hint = (
            f"Use at least {_WGMMA_ROWS} rows, where the matrices have them: M is the first side of the left operand."
            if m < _WGMMA_ROWS
            else f"Use `num_warps={_WGMMA_WARPS}`."
        )
        title = f"`tl.dot` in `{kernel.name}` uses `mma.sync`, not the faster `wgmma` of {device.key}"
    else:
        return
    yield context.finding(
        "FL965",
        title,
        f"The operands are {use.dtype}, M x N x K = {m} x {n} x {k}; {reason}.",
        _for(kernel),
        at=Location(kernel.location.path, use.line),
        hints=(hint,),
        related=_launched(context, kernel),
    )


def _float64(context: Context, kernel: OwnKernel, use: Float64Use) -> Iterator[Finding]:
    """Arithmetic in float64 of a kernel whose tensors are narrower; asked for, only where the device is slow at it."""
    device = context.report.own_kernels_device
    wide, narrow = (rate(device, dtype) if device is not None else None for dtype in ("f64", "f32"))
    is_slow = bool(wide and narrow and narrow >= _SLOW_FLOAT64 * wide)
    if use.parameters:
        names = format_list([f"`{name}`" for name in use.parameters])
        reason = f"{names} {'is' if len(use.parameters) == 1 else 'are'} float64"
        hint = f"Pass {names} in float32"
    elif use.constants:
        shown = format_list([f"{value:.6g}" for value in use.constants])
        reason = f"Triton makes {shown} float64, as float32's normal numbers are from 1.18e-38 to 3.4e38"
        hint = "Use constants from 1.18e-38 to 3.4e38"
    elif is_slow:
        reason, hint = "the kernel asks for `tl.float64`", "Use `tl.float32`, if its precision is enough"
    else:
        return
    tried = kernel.without_float64
    words = (
        resource_words(tried.registers, tried.spills, tried.shared, tried.occupancy)
        if tried is not None
        else []
    )
    first, *others = use.lines
    details = [f"The reason: {reason}."]
    if others:
        details.append(f"Further lines: {format_list([str(line) for line in others])}.")
    if is_slow:
        details.append(f"{_device(context)} computes float64 at {wide:g} TFLOP/s, and float32 at {narrow:g}.")
    yield context.finding(
        "FL967",
        f"`{kernel.name}` computes in float64, and stores nothing in float64",
        *details,
        _for(kernel),
        at=Location(kernel.location.path, first),
        hints=(f"{hint}: {', '.join(words)} (tried).",) if words else (),
        related=_launched(context, kernel),
    )


def _unused(context: Context, kernel: OwnKernel, name: str) -> Finding:
    kind = kernel.types.get(name, "")
    is_constant = kind == "constexpr" and kernel.values.get(name) != "1"
    what = (
        "each value of it" if is_constant
        else "an address that is a multiple of 16, and for one that is not" if kind.startswith("*")
        else "1, for multiples of 16 and for other numbers"
    )  # fmt: skip
    changes = (
        *([] if name in kernel.key else [f"remove `{name}`"]),  # the autotuner needs its key
        *([] if is_constant else [f'name it in `@triton.jit(do_not_specialize=["{name}"])`']),
    )
    return context.finding(
        "FL966",
        f"`{kernel.name}` never reads `{name}`, and is compiled again for other values of it",
        f"Triton compiles a kernel separately for {what}.",
        at=kernel.location,
        hints=(f"{text[0].upper()}{text[1:]}.",) if (text := ", or ".join(changes)) else (),
        related=_launched(context, kernel),
    )
