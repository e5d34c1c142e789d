"""The names of Triton's that this package reaches, and the only place that imports them.

Invariant: Triton is imported when one of these is called, and not before: it need not be there. It has no type
information, so that what is called is checked by a contract test of each name.
"""

from __future__ import annotations

import importlib
from typing import Any


def version() -> str:
    """Triton's. Raises ImportError where there is none."""
    return str(importlib.import_module("triton").__version__)


def is_missing() -> bool:
    """Whether this Python has no Triton, or one that cannot be imported."""
    try:
        importlib.import_module("triton.runtime")
        importlib.import_module("triton.backends.compiler")
    except ImportError:
        return True
    return False


def compile_(source: Any, *, target: Any, options: dict[str, Any]) -> Any:
    """`triton.compile`: the compiled kernel, not loaded."""
    return importlib.import_module("triton").compile(source, target=target, options=options)


def warm_up() -> None:
    """Have Triton hash itself, which it does once in a process and takes a second for: children inherit it."""
    cache = importlib.import_module("triton.runtime.cache")
    importlib.import_module("triton.compiler.code_generator")
    if hasattr(cache, "triton_key"):
        cache.triton_key()


def ast_source(
    function: Any,
    signature: dict[str, Any],
    constants: dict[Any, Any],
    attributes: dict[Any, Any] | None = None,
) -> Any:
    """A kernel with the types of its parameters, for `compile_`."""
    return importlib.import_module("triton.compiler").ASTSource(function, signature, constants, attributes)


def knobs() -> Any:
    """Triton's settings."""
    return importlib.import_module("triton.knobs")


def driver() -> Any:
    """The one place that holds Triton's driver, in `_active`. Reading `active` would look for a GPU."""
    return importlib.import_module("triton.runtime.driver").driver


def gpu_target(backend: str, arch: int | str, warp: int) -> Any:
    """What to compile for."""
    return importlib.import_module("triton.backends.compiler").GPUTarget(backend, arch, warp)


def nvidia_compiler() -> Any:
    """NVIDIA's backend, which prints where ptxas fails."""
    return importlib.import_module("triton.backends.nvidia.compiler")


def ptxas() -> str | None:
    """The assembler of a program's own kernels, below capability 10.0; None where this Triton names none."""
    try:
        return str(knobs().nvidia.ptxas.path)
    except (ImportError, AttributeError, RuntimeError):  # the last: it is not there
        return None


def compilation_error() -> Any:
    """What Triton raises for a source that it does not take: `node`, `error_message`, and the cause."""
    return importlib.import_module("triton.compiler.errors").CompilationError


def out_of_resources(required: int, limit: int, name: str) -> Exception:
    """What Triton raises where a kernel that was compiled does not fit the device."""
    error: Exception = importlib.import_module("triton.runtime.errors").OutOfResources(required, limit, name)
    return error


def runtime_jit() -> Any:
    """The module of `JITFunction`, where every launch ends."""
    return importlib.import_module("triton.runtime.jit")


def autotuner() -> Any:
    """The module of `Autotuner`."""
    return importlib.import_module("triton.runtime.autotuner")


def interpreter() -> Any:
    """Triton's interpreter, which computes with NumPy. Raises ImportError without NumPy."""
    return importlib.import_module("triton.runtime.interpreter")


def language() -> Any:
    """`triton.language`."""
    return importlib.import_module("triton.language")


def backends() -> dict[str, Any]:
    """The backends that are installed, by name; a driver of any of them may be active."""
    return dict(importlib.import_module("triton.backends").backends)


def libdevices() -> list[Any]:
    """The modules of libdevice's functions: the one that stands for every vendor's, and those of each vendor."""
    modules = []
    for vendor in ("", ".cuda", ".hip"):
        try:
            modules.append(importlib.import_module(f"triton.language.extra{vendor}.libdevice"))
        except ImportError:  # this Triton was built without that vendor
            continue
    return modules


def make_backend(target: Any) -> Any:
    """The backend that compiles for a target."""
    return importlib.import_module("triton.compiler.compiler").make_backend(target)


def first_line(function: Any) -> int:
    """The 1-based line of a kernel's `def`, after its decorators."""
    line = getattr(function, "def_file_line_number", None)  # of Triton 3.9 and newer
    return int(runtime_jit().get_jit_fn_file_line(function)[1] if line is None else line)
