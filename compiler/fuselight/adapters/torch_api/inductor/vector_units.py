"""Inductor's tests of the CPU's vector units, kept where the next process finds them.

Invariant: what a test says is what it says without us; only the folder of its program differs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from fuselight.adapters.torch_api.patching import wrapped

_CACHES = "TORCHINDUCTOR_CACHE_DIR"


def own_caches() -> str:
    """The folder in which a program of this user has Inductor's caches, as the environment says now."""
    utils: Any = importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    return os.environ.get(_CACHES) or str(utils.default_cache_dir())


@contextlib.contextmanager
def tested_in(folder: str) -> Iterator[None]:
    """Within the block, Inductor keeps its tests of vector units in `folder`, not in the caches of this process.

    It compiles and loads one for each unit in each empty cache, which takes 8 to 12 seconds of a first compile. Where
    nothing can be written to `folder`, they are in the caches of this process.
    """
    vec_isa: Any = importlib.import_module("torch._inductor.cpu_vec_isa")

    def check(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        before = os.environ.get(_CACHES)
        os.environ[_CACHES] = folder
        try:
            return real(*args, **named)
        except OSError:
            pass
        finally:
            if before is None:
                del os.environ[_CACHES]
            else:
                os.environ[_CACHES] = before
        return real(*args, **named)

    kind = getattr(vec_isa, "VecISA", None)
    if not hasattr(kind, "check_build"):
        yield
        return
    with wrapped(kind, "check_build", check):
        yield
