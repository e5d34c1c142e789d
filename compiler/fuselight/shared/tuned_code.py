"""A tuned result as Python that needs nothing of ours: the arguments of torch.compile, and what goes around the call.

Invariant: the code says everything that the result consists of, as a statement, or as a comment where it is no
statement: fixes of the source, choices of kernel tuning. Freezing is no argument: torch ignores it among the options,
because Dynamo has made all weights inputs by the time options are in force. Standard library only.
"""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from typing import Any

from fuselight.shared.report.measured import Work
from fuselight.shared.report.tuned import Preparation, TunedResult

_BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
"""Names of `torch.nn.attention.SDPBackend` by those of `ATTENTION`."""
_WIDTH = 88
_FREEZING = "freezing"
_MULTI_KERNEL, _HINTS = "triton.multi_kernel", "multi_kernel_hints"
STATIC_LAUNCHER = "use_static_cuda_launcher"
"""Inductor's option to launch kernels without Triton's own launcher."""
_LOCKED = (2, 9)
"""The torch from which kernels that a cache restores for the static launcher may lack the lock of their hash."""
_GUARDS = "guard_filter_fn"


class _BareText(str):
    """Text that stands in printed code as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_SKIP_GUARDS = _BareText("torch.compiler.skip_guard_on_all_nn_modules_unsafe")
GUARD_OPTION = f"options={{'{_GUARDS}': {_SKIP_GUARDS}}}"
"""The argument of torch.compile that skips guards on modules, as a program writes it."""


def restartable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Inductor's options with which torch's caches serve the next process, too.

    With torch 2.11 to 2.14, a kernel that the cache of graphs restores for the static launcher has no lock for its
    hash, and `multi_kernel` reads that hash: the second process that compiles the same graph fails. Without the static
    launcher it gets each kernel from Triton's cache, which takes somewhat longer. An option that is given stays.
    """
    given = {name.replace("-", "_"): value for name, value in options.items()}
    reads_hash = given.get(_MULTI_KERNEL) == 1 or bool(given.get(_HINTS))
    return (
        {**options, STATIC_LAUNCHER: False} if reads_hash and STATIC_LAUNCHER not in given else dict(options)
    )


def compile_arguments(result: TunedResult, *, skip_guards: Any = _SKIP_GUARDS) -> dict[str, Any]:
    """Keyword arguments of torch.compile: `options` and `dynamic`, each only if the result has one. No `freezing`.

    `skip_guards` stands for torch's function that skips the guards on modules: its name in code, if not given.
    """
    arguments: dict[str, Any] = {}
    options = {name: value for name, value in result.options.items() if name != _FREEZING}
    if _version(result.torch) >= _LOCKED:
        options = restartable(options)  # the result may be of an older search
    if result.fixed_modules:
        options[_GUARDS] = skip_guards
    if options:
        arguments["options"] = options
    if result.dynamic is not None:
        arguments["dynamic"] = result.dynamic
    return arguments


def _version(torch: str) -> tuple[int, ...]:
    """`(2, 13)` for `2.13.0+cpu`; empty if unknown."""
    parts = torch.split(".")[:2]
    return tuple(map(int, parts)) if len(parts) > 1 and all(map(str.isdecimal, parts)) else ()


def freezing_code(result: TunedResult) -> list[str]:
    """Statements before the first call that have torch freeze the weights, if the result does."""
    if not result.options.get(_FREEZING) or result.work is not Work.INFERENCE or result.blocks:
        return []
    return ["import torch._inductor.config", "torch._inductor.config.freezing = True"]


def replay_code(result: TunedResult, *, variable: str = "model") -> str:
    """The statement that replays a result with our backend, from the tuned file."""
    guards = f", {GUARD_OPTION}" if result.fixed_modules else ""
    return f'{variable} = torch.compile({variable}, backend="fuselight"{guards})'


def preparation_code(preparation: Preparation, *, variable: str = "model", device: str = "cuda") -> list[str]:
    """Statements for what torch.compile has no argument for; those that end with a colon go around the call.

    `device` is the type of the device that the model is on, for autocast.
    """
    lines = []
    if preparation.channels_last:
        lines.append(
            f"{variable} = {variable}.to(memory_format=torch.channels_last)  # and its images: "
            "x.to(memory_format=torch.channels_last)"
        )
    if preparation.precision == "tf32":
        lines += ['torch.set_float32_matmul_precision("high")', "torch.backends.cudnn.allow_tf32 = True"]
    if preparation.precision == "bf16":
        lines.append(f'with torch.autocast("{device}", dtype=torch.bfloat16):')
    if preparation.attention:
        backend = _BACKENDS.get(preparation.attention, preparation.attention.upper())
        lines.append(f"with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.{backend}):")
    return lines


def compile_code(result: TunedResult, *, variable: str = "model", device: str = "cuda") -> str:
    """The whole as code; `variable` is the name of the model, or of the function."""
    arguments = compile_arguments(result)
    comments = [
        f"# Fuselight: {result.configuration}, {result.gain:.2f}x over torch.compile's default on {result.device}"
        + (f" with torch {result.torch}" if result.torch else "")
    ]
    comments += [f"# The source must have this fix: {title}" for title in result.fixes]
    if result.kernels:
        comments.append(
            "# Kernels are tuned again in each process; replay the choices with backend='fuselight'"
        )
    if "+longest=" in result.configuration:
        comments.append(
            "# All multiplications are timed in each process, also those that the search left to the library"
        )
    freezing = freezing_code(result)
    if freezing:
        comments.append(
            "# Freezing is on for all that is compiled from here on. Weights must not change after their first call"
        )
        comments.append(
            "# under torch.no_grad(); backend='fuselight' notices if they do. torch's disk cache does not tell models"
        )
        comments.append(
            "# apart that differ in scalar weights only: clear it after a change, or use the backend"
        )
    elif result.options.get(_FREEZING) and result.blocks:
        comments.append(
            "# Freezing is left out: the blocks share one compile, and each has weights of its own"
        )
    if result.fixed_modules:
        comments.append(
            "# Modules are not checked before a call: call torch._dynamo.reset() after a change of one"
        )
    imports = ["import torch", *(line for line in freezing if line.startswith("import "))]
    statements = preparation_code(result.preparation, variable=variable, device=device)
    around = [line for line in statements if line.endswith(":")]
    before = [line for line in freezing if line not in imports]
    before += [line for line in statements if line not in around]
    if result.blocks:
        before += [
            f"for name in {_value(list(result.blocks))}:",
            f"    {_call(f'{variable}.get_submodule(name).compile', [], arguments, indent=4)}",
        ]
    else:
        before.append(f"{variable} = {_call('torch.compile', [variable], arguments)}")
    if result.optimizer:
        before.append("optimizer.step = torch.compile(optimizer.step)")
    call = [f"{'    ' * depth}{line}" for depth, line in enumerate(around)]
    if call:
        call.append(f"{'    ' * len(around)}...  # each call of {variable}")
    return "\n".join([*map(_on_one_line, comments), *imports, "", *before, *call]) + "\n"


def _on_one_line(comment: str) -> str:
    """A comment without what would end its line: it has names that a tuned file or a stored search brings."""
    return "".join(text if text.isprintable() else ascii(text)[1:-1] for text in comment)


def _call(function: str, positional: list[str], arguments: dict[str, Any], *, indent: int = 0) -> str:
    """A call on one line, or with a line for each argument where that is too long."""
    given = [*positional, *(f"{name}={value!r}" for name, value in arguments.items())]
    short = f"{function}({', '.join(given)})"
    if len(short) + indent <= _WIDTH:
        return short
    inner, end = " " * (indent + 4), " " * indent
    wrapped = [*positional, *(f"{name}={_wrapped(value, indent + 4)}" for name, value in arguments.items())]
    return f"{function}(\n" + "".join(f"{inner}{text},\n" for text in wrapped) + f"{end})"


def _wrapped(value: Any, indent: int) -> str:
    """A value; a dictionary with a line for each entry."""
    if not isinstance(value, dict):
        return _value(value)
    inner = " " * (indent + 4)
    lines = "".join(f"{inner}{key!r}: {_value(result)},\n" for key, result in value.items())
    return f"{{\n{lines}{' ' * indent}}}"


def _value(value: Any) -> str:
    return pprint.pformat(value, width=10**9, sort_dicts=False)
