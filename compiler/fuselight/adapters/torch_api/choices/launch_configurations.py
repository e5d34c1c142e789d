"""The launch configurations that Inductor keeps on disk, of generated kernels: read, stored, and known by a key.

Invariant: a key is the same in every process that generates the same kernel for the same kind of GPU.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

_KERNEL = re.compile(r"\btriton_\w+")
_INDEX = re.compile(r"(DeviceProperties\([^)]*?)\bindex=\d+")
_ENVIRONMENT = re.compile(
    r"'(?:backend_hash|force_disable_caches|autotune_local_cache|autotune_remote_cache|incremental_autotune)': "
    r"(?:'[^']*'|\w+)"
)
"""What Inductor writes into a source that does not change its kernel: hashes of Triton and ptxas, which
TRITON_PTXAS_PATH changes, and settings of caches."""
LENGTH = 24
"""Characters of a key."""


def kernel_key(source: str) -> str:
    """The key of a generated Triton kernel: the same under any name, on each of several equal GPUs, with any ptxas."""
    return first_key(_ENVIRONMENT.sub("", source))


def first_key(source: str) -> str:
    """The key in files from before 2026-11-26, with the version of ptxas."""
    text = _INDEX.sub(r"\1index=", _KERNEL.sub("triton_", source))
    return hashlib.sha256(text.strip().encode()).hexdigest()[:LENGTH]


def key_of_kernel(kernel: Any) -> str | None:
    """The key of a kernel of Inductor's runtime, by the file that it was loaded from; None without that file."""
    path = getattr(kernel, "filename", None)
    try:
        with open(path or "", encoding="utf-8") as file:
            return kernel_key(file.read())
    except OSError:
        return None


def tag_in_force() -> str:
    """The tag of torch's caches that is set now."""
    return str(getattr(getattr(torch.compiler, "config", None), "cache_key_tag", "") or "")


def best_config_path(source_path: str, tag: str = "") -> str | None:
    """Where Inductor's runtime looks for the configuration of the kernel in this file, under a tag of its caches."""
    shared: Any = getattr(torch.compiler, "config", None)
    with shared.patch(cache_key_tag=tag) if hasattr(shared, "cache_key_tag") else contextlib.nullcontext():
        return _path_in_force(source_path)


def _path_in_force(source_path: str) -> str | None:
    module: Any = importlib.import_module("torch._inductor.runtime.autotune_cache")
    meta = {
        "autotune_local_cache": True,
        "autotune_remote_cache": False,
        "bundled_autotune_remote_cache": False,
    }
    cache = module.AutotuneCache.create(meta, source_path, "")
    local = getattr(cache, "local_cache", None)
    return str(local[1]) if local else None


def stored_configurations(tags: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The configurations that this process's Inductor cache has under these tags, by key of the kernel."""
    if "torch._inductor.runtime.autotune_cache" not in sys.modules:
        return {}  # no kernel had a choice
    folder: str = importlib.import_module("torch._inductor.runtime.cache_dir_utils").cache_dir()
    configurations: dict[str, dict[str, Any]] = {}
    folders = {
        os.path.dirname(path) for path in glob.glob(os.path.join(glob.escape(folder), "*", "*.best_config"))
    }
    for path in sorted(
        path for folder in folders for path in glob.glob(os.path.join(glob.escape(folder), "*.py"))
    ):
        for tag in sorted(tags):
            try:
                with open(best_config_path(path, tag) or "", encoding="utf-8") as file:
                    config = json.load(file)
                with open(path, encoding="utf-8") as file:
                    source = file.read()
            except (OSError, ValueError):
                continue  # a kernel without a choice
            if isinstance(config, dict):
                configurations[kernel_key(source)] = config
    return configurations


def written(source: str) -> str:
    """The file that Inductor writes this source to. Its name is a hash, the same on every machine."""
    code: Any = importlib.import_module("torch._inductor.codecache")
    _, path = code.PyCodeCache.write(source)
    return str(path)


def compile_seeded(
    choice_of: Callable[[str], Any], real: Callable[..., Any], *args: Any, **named: Any
) -> Any:
    """Have Inductor compile a generated kernel in the launch configuration that is known for its source alone."""
    source = source_of(args, named)
    choice = choice_of(source)
    if choice is not None and "configs_hash" in choice:
        seed(written(source), choice)
    return real(*args, **named)


def source_of(args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """The source of a call of `AsyncCompile.triton`: generated code gives it by position, templates by name."""
    return str(named["source_code"] if "source_code" in named else args[2])


def read_shared(folder: str) -> dict[str, Any]:
    """The launch configurations that processes have left in a folder, by key of the kernel."""
    configurations: dict[str, Any] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            configurations.update(json.load(file))
    return configurations


def seed(path: str, choice: Mapping[str, Any]) -> None:
    """Store a kernel's configuration where Inductor's runtime looks for it, here and in its worker processes."""
    for tag in {"", tag_in_force()}:  # which know no tag
        stored = best_config_path(path, tag)
        if stored is not None and not os.path.exists(stored):
            store(stored, choice)


def store(stored: str, choice: Mapping[str, Any]) -> None:
    """Write a file as a whole, if the folder can be written."""
    with contextlib.suppress(OSError):  # a read-only cache: the kernel is tuned as without us
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(stored))
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(dict(choice), out)
        os.replace(temporary, stored)
