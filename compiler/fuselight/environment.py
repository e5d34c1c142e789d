"""What ran, and what was in force: versions, variables, settings.

Invariant: importable, and true, without torch, whose absence is a `None` that the worker's hello must be able to say.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path

from fuselight.report import Environment, Versions

_PREFIXES = ("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "PYTORCH_", "CUDA_VISIBLE_DEVICES")


def versions() -> Versions:
    """The versions in this interpreter."""
    return Versions(
        python=platform.python_version(),
        torch=_torch_version(),
        triton=_installed("triton") or _installed("pytorch-triton"),
        fuselight=own_version(),
        platform=platform.platform(),
        executable=sys.executable,
    )


@functools.cache
def own_version() -> str:
    """Fuselight's version: of the package.json that travels with this very code, else of the installed distribution.

    In that order, for the user's interpreter may have another Fuselight installed than the one that is running.
    """
    for folder in Path(__file__).resolve().parents[1:5]:
        try:
            manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(manifest, dict) and manifest.get("name") == "fuselight":
            return str(manifest.get("version"))
    return _installed("fuselight") or "unknown"


def _torch_version() -> str | None:
    loaded = getattr(sys.modules.get("torch"), "__version__", None)
    return str(loaded) if loaded is not None else _installed("torch")


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def environment() -> Environment:
    """The variables that torch and its compilers read, and Dynamo's settings that are not at their default."""
    config: dict[str, str] = {}
    if "torch._dynamo" in sys.modules:
        from fuselight import torch_api  # noqa: PLC0415 - this module must be importable without torch

        config = torch_api.changed_config()
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)}
    return Environment(variables, config)
