# ruff: noqa: SLF001 - private names are this package's business
"""Stands in for Triton where it is not installed, so that Inductor can write kernels for it.

Inductor writes Triton kernels as text. On the way it asks Triton for its version, for the widths of its types and for
what its backend supports, and refuses to begin where `import triton` fails. Invariant: the text is that which Inductor
writes with the Triton that belongs to this torch, except for `backend_hash`; nothing can be compiled with the stand-in;
when the block ends, `import triton` fails as it did before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.codegen.triton_utils
import torch._inductor.runtime.hints
import torch._inductor.runtime.triton_compat
import torch._inductor.utils
import torch.utils._triton

from fuselight.adapters.torch_api.inductor.toolchain import matching_triton
from fuselight.adapters.torch_api.patching import forget, patched
from fuselight.shared.report import Device

BACKEND_HASH = "TRITON-IS-NOT-INSTALLED"
"""Stands in kernels where the hash of Triton and its backend belongs: Inductor looks up tuned configurations by it."""
_BITS = {
    "int1": 1, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
    "float8e5": 8, "float8e4nv": 8, "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64,
}  # fmt: skip
_FP8 = ("fp8e4b15", "fp8e5")
"""Triton's 8-bit floats on every NVIDIA GPU; from capability 8.9 on `fp8e4nv` comes with them."""


class CompilationError(Exception):
    """Triton's error for a source that it cannot compile: never raised, as nothing is compiled."""


class JITFunction:
    """A kernel's function: Inductor loads the kernels of templates to list them as candidates, and launches none."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.arg_names = list(inspect.signature(fn).parameters)


class Autotuner:
    """Triton's type of a user's autotuned kernel: there is none without Triton."""


class Config:
    """One launch configuration, as `triton.Config` holds it."""

    def __init__(self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, **more: Any) -> None:
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages
        self.__dict__.update(more)

    def all_kwargs(self) -> dict[str, Any]:
        """The meta-parameters, with warps and stages."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}


@dataclasses.dataclass(frozen=True)
class DType:
    """A type of Triton's language."""

    name: str
    primitive_bitwidth: int


@dataclasses.dataclass(frozen=True)
class GPUTarget:
    """What Triton would compile for."""

    backend: str
    arch: int | str
    warp_size: int


@contextlib.contextmanager
def triton_standing_in(device: Device) -> Iterator[None]:
    """Have Inductor generate code as if Triton were installed, until the block ends."""
    modules = _modules(device)
    before = _drop()
    sys.modules.update(modules)
    with contextlib.ExitStack() as stack:
        stack.callback(_forget)
        stack.callback(sys.modules.update, before)
        stack.callback(_drop)
        _forget()
        stack.enter_context(patched(torch.utils._triton, "triton_hash_with_backend", lambda: BACKEND_HASH))
        stack.enter_context(
            patched(torch._inductor.codegen.triton_utils, "AttrsDescriptorWrapper", _attributes)
        )
        without: Any = torch._inductor.runtime.triton_compat.triton
        for module in [module for name, module in sys.modules.items() if name.startswith("torch._inductor.")]:
            # What `triton_compat` gives without Triton has no configurations, with which templates are listed.
            for name in ("Config", "TritonConfig"):
                if vars(module).get(name) is object:
                    stack.enter_context(patched(module, name, Config))
            if vars(module).get("triton") is without:
                stack.enter_context(patched(module, "triton", modules["triton"]))
        yield


def _drop() -> dict[str, types.ModuleType]:
    """Unload Triton's modules, and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] == "triton"]
    return {name: sys.modules.pop(name) for name in names}


def _forget() -> None:
    """Drop what Inductor keeps of Triton's answers: they are others inside of the block and outside."""
    names = ("get_triton_attrs_descriptor_version", "_triton_supported_fp8_dtypes")
    forget(getattr(torch._inductor.utils, name, None) for name in names)


def _attributes(
    divisible_by_16: Any = None, equal_to_1: Any = None, pointer_range_32: Any = None
) -> dict[tuple[int], list[list[Any]]]:
    """What Inductor tells Triton of arguments, as `hints.AttrsDescriptorWrapper` has it since Triton 3.3."""
    del equal_to_1
    attributes: dict[tuple[int], list[list[Any]]] = {
        (at,): [["tt.divisibility", 16]] for at in divisible_by_16 or ()
    }
    for at in pointer_range_32 or ():
        attributes.setdefault((at,), []).append(["tt.pointer_range", 32])
    return attributes


def _modules(device: Device) -> dict[str, types.ModuleType]:
    language = {name: DType(name, bits) for name, bits in _BITS.items()} | {
        "dtype": DType,
        "constexpr": lambda value: value,
    }

    def make_backend(target: Any) -> Any:
        del target
        more = ("fp8e4nv",) if device.backend == "cuda" and device.capability >= (8, 9) else ()
        options = types.SimpleNamespace(supported_fp8_dtypes=tuple(sorted((*_FP8, *more))))
        return types.SimpleNamespace(parse_options=lambda _: options)

    contents: dict[str, dict[str, Any]] = {
        "triton": {
            "__version__": matching_triton() or "3.3.0",
            "Config": Config,
            "JITFunction": JITFunction,
            "jit": JITFunction,
        },
        "triton.backends": {},
        "triton.backends.compiler": {"GPUTarget": GPUTarget},
        "triton.compiler": {},
        "triton.compiler.compiler": {"make_backend": make_backend},
        "triton.compiler.errors": {"CompilationError": CompilationError},
        "triton.language": language,
        "triton.language.core": language,
        "triton.runtime": {"driver": types.SimpleNamespace(_active=None)},
        "triton.runtime.autotuner": {"Autotuner": Autotuner},
        "triton.runtime.cache": {},
        "triton.runtime.jit": {"JITFunction": JITFunction},
    }
    modules: dict[str, types.ModuleType] = {}
    for name, values in contents.items():
        module = modules[name] = types.ModuleType(name)
        vars(module).update(values)
        # `importlib.util.find_spec` wants a spec, and an import of a submodule a package.
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules
