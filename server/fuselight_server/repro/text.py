"""The text of a small program.

Invariant: it imports torch and the standard library alone; it ends with exit status 1 and `MARK` if compiled code
differs, and with 0 if it does not, as with `python repro.py eager`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from fuselight.shared.report import MARK, TensorTraits
from fuselight_server.repro.model import Fill, Observed, SmallProgram

_NAME = re.compile(r"\bv_\d+_")
_SEED = 0
_WHAT = {
    Observed.OUTPUTS: "compiled code returns other results than eager mode",
    Observed.ARGUMENTS: "compiled code writes other values to its arguments than eager mode",
    Observed.GRADIENTS: "compiled code has other gradients than eager mode",
    Observed.MEMORY: "results share memory with arguments otherwise than in eager mode",
    Observed.FAILURE: "compilation fails",
}


def what_differs(program: SmallProgram) -> str:
    """The fault in a line."""
    return _WHAT[program.observed]


def script_of(program: SmallProgram) -> str:
    """The program as a file of Python."""
    names = _short_names(program)
    lines = [*_head(program), "", "", *_function(program, names), "", "", *_call(program, names), "", ""]
    lines += [*_settings(program), *_comparison(program)]
    return "\n".join(lines) + "\n"


def operators_of(program: SmallProgram) -> tuple[str, ...]:
    """What its lines call, for a title: `torch.acosh`, `.add_`."""
    names: list[str] = []
    for node in program.nodes:
        match = re.match(r"(torch[\w.]+)\(", node.code) or re.match(r"v_\d+_(\.\w+)\(", node.code)
        if match is not None:
            names.append(match[1].replace("torch._C._nn.", "torch.nn.functional."))
    return tuple(dict.fromkeys(names))


def _short_names(program: SmallProgram) -> dict[str, str]:
    """`x0` for inputs, `y0` for what lines assign."""
    names = {name: f"x{index}" for index, name in enumerate(program.inputs)}
    assigned = [node.name for node in program.nodes if not node.is_statement]
    return names | {name: f"y{index}" for index, name in enumerate(assigned)}


def _renamed(code: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: names.get(match[0], match[0]), code)


def _head(program: SmallProgram) -> Iterator[str]:
    yield f'"""torch.compile: {what_differs(program)}."""'
    yield f"# {program.versions}"
    yield "# `python repro.py` ends with exit status 1, `python repro.py eager` (no compiled code) with 0."
    yield "import sys"
    yield ""
    yield "import torch"
    modules = {name.rpartition(".")[0] for name in program.settings}
    yield from (f"import {module}" for module in sorted(modules))


def _function(program: SmallProgram, names: Mapping[str, str]) -> Iterator[str]:
    yield f"def f({', '.join(names[name] for name in program.inputs)}):"
    used = {name for node in program.nodes for name in node.uses} | set(program.outputs)
    nodes = list(program.nodes)
    last = nodes[-1]
    is_returned = (
        program.outputs == (last.name,)
        and not last.is_statement
        and last.name not in {name for node in nodes for name in node.uses}
    )
    for node in nodes[:-1] if is_returned else nodes:
        code = _renamed(node.code, names)
        yield (
            f"    {code}"
            if node.is_statement or node.name not in used
            else f"    {names[node.name]} = {code}"
        )
    if is_returned:
        yield f"    return {_renamed(last.code, names)}"
    elif program.outputs:
        yield f"    return {', '.join(names[name] for name in program.outputs)}"


def _call(program: SmallProgram, names: Mapping[str, str]) -> Iterator[str]:
    yield "def call(function):"
    inputs = program.inputs
    if inputs:
        yield f"    torch.manual_seed({_SEED})"
    for name in inputs:
        yield from (f"    {line}" for line in _input(program, name, names[name]))
    call = f"function({', '.join(names[name] for name in inputs)})"
    shown = ", ".join(names[name] for name in inputs)
    if program.observed in (Observed.OUTPUTS, Observed.FAILURE):
        yield f"    return {call}"
    elif program.observed is Observed.ARGUMENTS:
        yield f"    {call}"
        yield f"    return [{shown}]"
    elif program.observed is Observed.MEMORY:
        yield f"    result = {call}"
        yield "    result.zero_()" if len(program.outputs) == 1 else "    result[0].zero_()"
        yield f"    return [{shown}]"
    else:
        yield f"    result = {call}"
        results = "[result]" if len(program.outputs) == 1 else "result"
        yield f"    sum((y * torch.linspace(1, 2, y.numel()).view_as(y)).sum() for y in {results}).backward()"
        given = [names[name] for name in inputs if _needs_gradient(program, name)]
        yield f"    return [x.grad for x in ({''.join(f'{name}, ' for name in given)}) if x.grad is not None]"


def _needs_gradient(program: SmallProgram, name: str) -> bool:
    traits = program.traits[name]
    return program.grad and traits.requires_grad and traits.dtype.startswith(("float", "bfloat", "complex"))


def _input(program: SmallProgram, name: str, short: str) -> Iterator[str]:
    traits = program.traits[name]
    fill = program.fills.get(name, Fill.UNIFORM)
    expression = _values(traits, fill)
    device = f', device="{traits.device}"' if traits.device != "cpu" else ""
    if device:
        expression = f'({expression}).to("{traits.device}")'
    if program.strided and not _is_contiguous(traits):
        dtype = f", dtype=torch.{traits.dtype}"
        expression = (
            f"torch.empty_strided({traits.shape}, {traits.stride}{dtype}{device}).copy_({expression})"
        )
    special = _special(traits) if fill not in (Fill.VALUES, Fill.NORMAL, Fill.ONES) else []
    if _needs_gradient(program, name) and not special:
        expression = (
            f"({expression}).requires_grad_()" if " " in expression else f"{expression}.requires_grad_()"
        )
    yield f"{short} = {expression}"
    for index, word in enumerate(special):
        place = "()" if not traits.shape else "view(-1)" if not program.strided else "flatten()"
        step = f"[{index}::{len(special) + 2}]" if traits.shape else ""
        target = f"{short}.{place}{step}" if traits.shape else f"{short}[()]"
        yield f'{target} = float("{word}")'
    if _needs_gradient(program, name) and special:
        yield f"{short}.requires_grad_()"


def _special(traits: TensorTraits) -> list[str]:
    if not traits.dtype.startswith(("float", "bfloat")) or 0 in traits.shape:
        return []
    known = {"nan": traits.nan, "inf": traits.infinite, "-inf": traits.negative_infinite}
    return [word for word, holds in known.items() if holds]


def _is_contiguous(traits: TensorTraits) -> bool:
    expected = 1
    for size, stride in zip(reversed(traits.shape), reversed(traits.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _values(traits: TensorTraits, fill: Fill) -> str:
    """An expression for a tensor on the CPU with values as those of the recorded one."""
    shape = _shape(traits.shape)
    dtype = "" if traits.dtype == "float32" else f", dtype=torch.{traits.dtype}"
    if fill is Fill.VALUES and traits.values:
        return f"torch.tensor({traits.values}, dtype=torch.{traits.dtype})"
    if fill is Fill.ONES:
        return f"torch.ones({shape}{dtype})"
    if traits.dtype == "bool":
        return (
            f"torch.rand({shape}) > 0.5"
            if traits.low != traits.high
            else f"torch.full({shape}, {traits.low > 0})"
        )
    if traits.dtype.startswith("complex"):
        return f"torch.randn({shape}{dtype})"
    if not traits.dtype.startswith(("float", "bfloat")):
        return _integers(traits, shape)
    return _floats(traits, fill, shape, dtype)


def _integers(traits: TensorTraits, shape: str) -> str:
    dtype = "" if traits.dtype == "int64" else f", dtype=torch.{traits.dtype}"
    low, high = int(traits.low), int(traits.high)
    if traits.is_counting:
        return f"torch.arange({math.prod(traits.shape)}{dtype}){_reshaped(traits.shape)}"
    if low == high:
        return f"torch.full({shape}, {low}{dtype or ', dtype=torch.int64'})"
    return f"torch.randint({low}, {high + 1}, {shape}{dtype})"


def _floats(traits: TensorTraits, fill: Fill, shape: str, dtype: str) -> str:
    low, high = traits.low, traits.high
    count = math.prod(traits.shape)
    if fill is Fill.NORMAL:
        return f"torch.randn({shape}{dtype})"
    if low == high:
        return f"torch.full({shape}, {low!r}{dtype})"
    if fill is Fill.LOGARITHMIC and high > 0:
        least = low if low > 0 else high * 1e-6
        ends = f"{math.log10(least):.3g}, {math.log10(high):.3g}"
        return f"torch.logspace({ends}, {count}{dtype}){_reshaped(traits.shape)}"
    if fill is Fill.GRID:
        return f"torch.linspace({low:g}, {high:g}, {count}{dtype}){_reshaped(traits.shape)}"
    if traits.is_counting:
        return f"torch.arange({float(count)}{dtype}){_reshaped(traits.shape)}"
    scale = high - low
    text = f"torch.rand({shape}{dtype}) * {scale:g}"
    return f"{text} + {low:g}" if low > 0 else f"{text} - {-low:g}" if low < 0 else text


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _reshaped(shape: Sequence[int]) -> str:
    return "" if len(shape) == 1 else f".reshape({_shape(shape)})"


def _settings(program: SmallProgram) -> Iterator[str]:
    yield from (f"{name} = {text}" for name, text in program.settings.items())


def _comparison(program: SmallProgram) -> Iterator[str]:
    dynamic = ", dynamic=True" if program.dynamic else ""
    compiled = f"torch.compile(f, backend=backend{dynamic})"
    yield f'backend = sys.argv[1] if len(sys.argv) > 1 else "{program.backend}"'
    if program.observed is Observed.FAILURE:
        yield 'print("eager", call(f))'
        yield "try:"
        yield f'    print("compiled", call({compiled}))'
        yield "except Exception as error:"
        yield f'    sys.exit(f"{MARK}{{type(error).__name__}}: {{error}}")'
        return
    relative, absolute = program.tolerance
    yield "eager = call(f)"
    yield f"compiled = call({compiled})"
    yield 'print("eager", eager, "compiled", compiled, sep="\\n")'
    yield "try:"
    yield (
        f"    torch.testing.assert_close(compiled, eager, rtol={relative:g}, atol={absolute:g}, equal_nan=True)"
    )
    yield "except AssertionError as error:"
    yield f'    sys.exit(f"{MARK}{{error}}")'
