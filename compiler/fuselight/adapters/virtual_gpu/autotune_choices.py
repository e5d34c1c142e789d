# ruff: noqa: SLF001 - private names are this package's business
"""Replaces Inductor's autotuning on the device: lists the candidates and picks one without timing.

Invariant: nothing is timed. A multiplication or convolution uses the library's call, as without autotuning, and no
operand is padded. The candidates are reported with the launch that replaces them.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._inductor.codecache
import torch._inductor.config
import torch._inductor.fx_passes.pad_mm
import torch._inductor.runtime.hints
import torch._inductor.select_algorithm
import torch._inductor.utils

from fuselight.adapters.torch_api.inductor.size_hints import lowered_hint, size_hint
from fuselight.adapters.torch_api.patching import forget, patched, wrapped
from fuselight.adapters.virtual_gpu.device_interface import answering
from fuselight.shared.report import Device

UNDECIDABLE = frozenset(
    {"max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning"}
)
"""Options by which kernels are timed against each other: a GPU decides, and there is none."""

_KEPT_OFF = frozenset(
    {"fx_graph_cache", "fx_graph_remote_cache", "bundled_autotune_remote_cache", "compile_threads"}
)
"""Options that would put what is generated here into the user's caches, where a run of the program finds it."""
_OF_MULTIPLICATIONS = frozenset({"max_autotune", "max_autotune_gemm"})
_MULTIPLICATIONS = re.compile(r"\b(?:mm|addmm|bmm|baddbmm)(?:_out|_dtype)?\b")
_COUNTER = re.compile(r"_\d+$")
_SHOWN = re.compile(r"(?:BLOCK_\w+|num_\w+)=\w+")
"""Of a template's settings, those by which candidates differ."""
_OF_ONE_GPU = ("is_big_gpu", "get_max_num_sms")
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}

_Padded = tuple[int, ...]
"""Sizes of a multiplication: rows, what is summed over, columns."""


def decided(options: dict[str, Any]) -> dict[str, Any]:
    """Inductor's options without those that a GPU would have to decide, but for that which lists candidates.

    Cache options are removed too: a run of the program must not find code that is generated here.
    """
    kept = {name: value for name, value in options.items() if name not in UNDECIDABLE | _KEPT_OFF}
    if any(options.get(name) for name in _OF_MULTIPLICATIONS):
        kept["max_autotune_gemm"] = True
    return kept


class Choices:
    """What would be tried, in the graphs that are generated while it listens."""

    def __init__(self) -> None:
        self._tried: dict[int, tuple[Any, tuple[str, ...]]] = {}
        """By the identity of the IR node that was taken, which is kept so that it stays its own."""
        self._padded: dict[_Padded, _Padded] = {}

    def of(self, nodes: Sequence[Any]) -> tuple[str, ...]:
        """What would be tried in the place of the launch of some IR nodes."""
        choices: dict[str, None] = {}
        for node in nodes:
            choices.update(dict.fromkeys(self._padding_of(node)))
            choices.update(dict.fromkeys(self._tried.get(id(node), (None, ()))[1]))
        return tuple(choices)

    def tried(self, node: Any, choices: Sequence[Any]) -> None:
        """`node` was taken out of `choices`."""
        taken = getattr(getattr(node, "data", None), "data", None)
        if taken is not None:
            self._tried[id(taken)] = (taken, tuple(dict.fromkeys(map(_words, choices))))

    def padded(self, sizes: _Padded, larger: _Padded) -> None:
        """A multiplication of these sizes would be timed with larger ones."""
        self._padded.setdefault(sizes, larger)

    def _padding_of(self, node: Any) -> Iterator[str]:
        name = str(getattr(node, "python_kernel_name", None) or getattr(node, "op_overload", None) or "")
        if not self._padded or not _MULTIPLICATIONS.search(name):
            return
        operands = [
            tuple(lowered_hint([size]) for size in argument.get_size())
            for argument in node.inputs[-2:]
            if hasattr(argument, "get_size")
        ]
        if len(operands) == 2 and all(len(operand) >= 2 for operand in operands):  # noqa: PLR2004 - two matrices
            sizes = (*operands[0][-2:], operands[1][-1])
            larger = self._padded.get(sizes)
            if larger is not None:
                yield f"{_product(sizes)} as it is"
                yield f"padded to {_product(larger)}"


@contextlib.contextmanager
def listing_choices(device: Device) -> Iterator[Choices]:
    """Have Inductor choose without timing, and list what it would have timed."""
    choices = Choices()
    selector = torch._inductor.select_algorithm.AlgorithmSelectorCache
    pad_mm: Any = torch._inductor.fx_passes.pad_mm
    with contextlib.ExitStack() as stack:
        _forget()
        stack.callback(_forget)
        stack.enter_context(wrapped(selector, "__call__", _choosing(choices)))
        # A hash of every file of Triton, for what was timed in other processes.
        no_system = staticmethod(lambda: {"hash": ""})
        stack.enter_context(patched(torch._inductor.codecache.CacheBase, "get_system", no_system))
        name = next((text for text in ("_should_pad", "should_pad_bench") if hasattr(pad_mm, text)), None)
        if device.backend == "cpu" or name is None:
            stack.enter_context(torch._inductor.config.patch(shape_padding=False))
        else:
            stack.enter_context(patched(pad_mm, name, _padding(choices, device)))
        yield choices


def _forget() -> None:
    """Drop what Inductor caches about the size of a GPU: it describes another GPU."""
    forget(getattr(torch._inductor.utils, name, None) for name in _OF_ONE_GPU)
    forget([torch._inductor.runtime.hints.DeviceProperties.create])


def _choosing(observed: Choices) -> Callable[..., Any]:
    """Replaces autotuning: takes the library's candidate, or the first if there is none."""
    library = torch._inductor.select_algorithm.ExternKernelCaller

    def choose(real: Callable[..., Any], self: Any, name: str, choices: Any, *args: Any, **named: Any) -> Any:
        every = list(choices)
        if len(every) < 2:  # noqa: PLR2004 - nothing to choose
            return real(self, name, every, *args, **named)
        taken = next((value for value in every if isinstance(value, library)), every[0])
        node = taken.output_node()
        observed.tried(node, every)
        # Before 2.13 the choice comes with the node only for callers that ask for both.
        is_asked = "return_choice" in inspect.signature(real).parameters
        return (node, taken) if named.get("return_choice", not is_asked) else node

    return choose


def _padding(observed: Choices, device: Device) -> Callable[..., bool]:
    """Replaces the timing of a multiplication with padded operands: they are never padded."""
    pad_mm: Any = torch._inductor.fx_passes.pad_mm

    def should_pad(_match: Any, mat1: Any, mat2: Any, _op: Any, _input: Any = None) -> bool:
        if torch._inductor.config.force_shape_pad:
            return True
        rows, each, columns = mat1.shape[-2], mat1.shape[-1], mat2.shape[-1]
        sizes = tuple(size_hint(size) for size in (rows, each, columns))
        if None in sizes:
            return False
        known = tuple(size or 0 for size in sizes)
        with answering(device), _rates_of(device):
            # Of symbols, as torch asks: what the answer holds for is what is known of the sizes from then on.
            if not pad_mm.is_mm_compute_bound(rows, each, columns, mat1.dtype):
                return False
        aligned = pad_mm.get_alignment_size(mat1)
        more = [pad_mm.get_padded_length(size, aligned) for size in (rows, each, columns)]
        observed.padded(known, tuple(size + by for size, by in zip(known, more, strict=True)))
        return False

    return should_pad


@contextlib.contextmanager
def _rates_of(device: Device) -> Iterator[None]:
    """Inductor asks how fast a GPU is: whether a multiplication is bound by it decides whether padding is tried."""

    def tflops(dtype: torch.dtype) -> float:
        name = _DTYPES.get(dtype, "")
        if name == "f32" and torch.get_float32_matmul_precision() != "highest":
            name = "tf32"
        return device.tflops.get(name) or device.tflops.get("f32", 0.0)  # 0: torch takes it for bound by it

    utils = torch._inductor.utils
    with (
        patched(utils, "get_device_tflops", tflops),
        patched(utils, "get_gpu_dram_gbps", lambda: device.bandwidth_gbs),
    ):
        yield


def _words(choice: Any) -> str:
    """One candidate: a template with its settings, or a library's call."""
    if isinstance(choice, torch._inductor.select_algorithm.ExternKernelCaller):
        return f"{choice.name} of a library"
    name = _COUNTER.sub("", str(choice.name))
    settings = " ".join(_SHOWN.findall(str(getattr(choice, "description", "") or "")))
    return f"{name} {settings}".strip()


def _product(sizes: Sequence[int]) -> str:
    rows, each, columns = sizes
    return f"[{rows}, {each}] @ [{each}, {columns}]"
