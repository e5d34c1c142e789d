"""FL946 and FL947: the user's own Triton kernels that Triton compiles or tunes again, without a word.

Invariant: only what differs between launches of the run is named, with both values; the reason is Triton's own rule for
what a kernel is specialized on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fuselight.shared.report import OwnKernel
from fuselight_server.base.finding import Finding, Related
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.text import sentence
from fuselight_server.explain.kernels.own_kernels import by_function, launches

_MANY = 3
"""Values of a constant from which on each further one is expected to be another."""
_GROWTH = 4
"""How much larger the tensors of a launch are for which a configuration was not chosen."""
_SHOWN = 4
"""Values that are listed."""


class _CompileReason(NamedTuple):
    text: str
    hint: str


def repeated_compile_findings(context: Context) -> Iterator[Finding]:
    """What makes each kernel compile or tune again, on the line of its `def`."""
    for kernels in by_function(context.report.own_kernels).values():
        first = kernels[0]
        if first.library:
            continue
        related = tuple(
            Related(span_of(launch), "launched here")
            for launch in dict.fromkeys(
                context.innermost_user_frame(kernel.launched_at) for kernel in kernels if kernel.launched_at
            )
            if launch is not None
        )
        reasons = list(_reasons(kernels))
        if reasons:
            count = f"the launches of this run need {len(kernels)} compiles"
            is_in_graph = any(_is_in_graph(context, kernel) for kernel in kernels)
            yield context.finding(
                "FL946",
                f"{'in eager mode, ' if is_in_graph else ''}Triton compiles `{first.name}` again: "
                + "; ".join(reason.text for reason in reasons),
                f"In eager mode, {count}, and Triton compiles silently, in the launch. torch.compile compiles the "
                "kernel with each version of the function that launches it: FL201 shows these."
                if is_in_graph
                else f"{sentence(count)} Triton compiles silently, in the launch.",
                at=first.location,
                hints=tuple(dict.fromkeys(reason.hint for reason in reasons)),
                related=related,
            )
        yield from _tuning_findings(context, kernels)


def _is_in_graph(context: Context, kernel: OwnKernel) -> bool:
    """Whether compiled code launches the kernel, so that the backend compiles it and not the launch."""
    return any(launches(compiled.graph, kernel) for compiled in context.report.compiles if compiled.graph)


def _reasons(kernels: Sequence[OwnKernel]) -> Iterator[_CompileReason]:
    """What the specializations of a kernel differ in, by parameter."""
    if len(kernels) < 2:  # noqa: PLR2004 - two differ
        return
    tuned = {name for kernel in kernels for option in kernel.configurations for name in option.config.values}
    for name in kernels[0].types:
        if name not in tuned:
            reason = _reason(name, kernels)
            if reason is not None:
                yield reason


def _reason(name: str, kernels: Sequence[OwnKernel]) -> _CompileReason | None:
    types = dict.fromkeys(kernel.types.get(name, "") for kernel in kernels)
    values = list(dict.fromkeys(kernel.values.get(name, "") for kernel in kernels))
    integers = [kind for kind in types if kind in ("i32", "i64", "u64")]
    plain = f'Decorate the kernel with `@triton.jit(do_not_specialize=["{name}"])` if its value says little.'
    if integers and "constexpr" in types and "1" in values:
        other = next((value for value in values if value != "1"), "another value")
        return _CompileReason(f"`{name}` is 1, then {other}", plain)
    if set(types) == {"constexpr"}:
        if len(values) < _MANY:
            return None  # a kernel for two sizes, as it is meant
        shown = ", ".join(values[:_SHOWN]) + (", ..." if len(values) > _SHOWN else "")
        hint = f"Pass `{name}` as a plain argument if nothing needs it as a constant, or round it up to a power of 2."
        return _CompileReason(f"`{name}` is a constant with {len(values)} values ({shown})", hint)
    if len(integers) > 1:
        return _CompileReason(
            f"`{name}` fits 32 bits in one launch only", "Nothing needs to be done for sizes this large."
        )
    return _alignment(name, kernels) if len(types) == 1 else None


def _alignment(name: str, kernels: Sequence[OwnKernel]) -> _CompileReason | None:
    """Whether a number or an address is a multiple of 16 in some launches."""
    multiples = [kernel for kernel in kernels if name in kernel.divisible]
    others = [kernel for kernel in kernels if name not in kernel.divisible]
    if not multiples or not others:
        return None
    if kernels[0].types[name].startswith("*"):
        hint = f"Pass `{name}` at an address that is a multiple of 16 bytes: a slice may begin elsewhere."
        return _CompileReason(f"the address of `{name}` is a multiple of 16, then not", hint)
    values = multiples[0].values.get(name, "?"), others[0].values.get(name, "?")
    hint = (
        "Pad sizes to multiples of 16, or accept two compiles: `do_not_specialize` also narrows the accesses."
    )
    return _CompileReason(f"`{name}` is a multiple of 16 ({values[0]}), then not ({values[1]})", hint)


def _tuning_findings(context: Context, kernels: Sequence[OwnKernel]) -> Iterator[Finding]:
    """An autotuner that tunes for each size, or for no size."""
    tuned = [kernel for kernel in kernels if len(kernel.configurations) > 1]
    if not tuned:
        return
    first = tuned[0]
    keys = [values for kernel in tuned for values in (kernel.key_values, *kernel.further_key_values)]
    sizes = {
        name: list(dict.fromkeys(values[at] for values in keys if at < len(values)))
        for at, name in enumerate(first.key)
    }
    varied = {
        name: values for name, values in sizes.items() if len(values) > 1 and all(map(str.isdigit, values))
    }
    count = len(first.configurations)
    if varied:
        name, values = next(iter(varied.items()))
        yield context.finding(
            "FL947",
            f"the autotuner of `{first.name}` measures again for each value of `{name}`",
            f"The launches of this run have {_listed(sorted(values, key=int))}.",
            f"For each of them, all {count} configurations are compiled and timed in the launch.",
            at=first.decorator or first.location,
            hints=(
                f"Name a rounded size in `key`: pass `triton.next_power_of_2({name})` as an argument of its own.",
            ),
        )
        return
    moved = [(kernel.bytes_read or 0) + (kernel.bytes_written or 0) for kernel in tuned]
    if not first.key and min(moved) and max(moved) >= _GROWTH * min(moved):
        yield context.finding(
            "FL947",
            f"the autotuner of `{first.name}` measures for its first sizes only: its `key` is empty",
            f"Launches of this run move from {min(moved):,} to {max(moved):,} bytes. The configuration that is fastest "
            "for the first of them is used for all.",
            at=first.decorator or first.location,
            hints=("Name the sizes that decide in `key`, rounded to powers of 2.",),
        )


def _listed(values: Sequence[str]) -> str:
    shown = ", ".join(values[:_SHOWN])
    return shown if len(values) <= _SHOWN else f"{shown} and {len(values) - _SHOWN} more"
