# ruff: noqa: SLF001 - torch has no other way to ask which are registered
"""Inductor's choices of a kernel's configurations for AMD, in a torch that was built for another vendor."""

from __future__ import annotations

import importlib
from typing import Any

_PACKAGE = "torch._inductor.heuristics"
_KINDS = ("pointwise", "reduction")


def register_amd_heuristics() -> None:
    """Have them registered. Call it while `torch.version.hip` is set.

    Since torch 2.15 a module registers them when it is first imported, if torch is built for AMD at that moment;
    without them a kernel for AMD silently has the default configurations.
    """
    try:
        registry: Any = importlib.import_module(f"{_PACKAGE}.registry")
    except ImportError:  # before torch 2.15 the heuristics ask which vendor it is whenever they are called
        return
    for kind in _KINDS:
        key = (kind, "hip", None)
        module = importlib.import_module(f"{_PACKAGE}.triton_codegen.{kind}")
        if key not in registry._HEURISTIC_REGISTRY:
            importlib.reload(module)
            registry._HEURISTIC_CACHE.pop(key, None)
