"""The environment of a run: versions, variables, and settings.

Invariant: works without torch: a missing torch is `None`, which the worker's hello reports.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import sys

from fuselight.shared.report import VARIABLES, Environment, Versions
from fuselight.shared.version import version


def versions() -> Versions:
    """Versions of the packages in this interpreter."""
    return Versions(
        python=platform.python_version(),
        torch=_torch_version(),
        triton=_installed("triton") or _installed("pytorch-triton"),
        fuselight=version(),
        platform=platform.platform(),
        executable=sys.executable,
    )


def _torch_version() -> str | None:
    loaded = getattr(sys.modules.get("torch"), "__version__", None)
    return str(loaded) if loaded is not None else _installed("torch")


@functools.cache
def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def environment() -> Environment:
    """Variables that torch and its compilers read, and Dynamo settings that differ from their default."""
    config: dict[str, str] = {}
    if "torch._dynamo" in sys.modules:
        from fuselight.adapters.torch_api import settings  # noqa: PLC0415 - this module must be importable without torch

        config = settings.changed_config()
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}
    return Environment(variables, config)
