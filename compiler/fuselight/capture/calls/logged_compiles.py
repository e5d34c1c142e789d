"""Compiles as they are, with the compile caches in a folder and torch's structured log in another.

Invariant: no setting of torch is changed. The environment variables stay, for processes that are started later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fuselight.adapters.torch_api import structured_log
from fuselight.adapters.torch_api.inductor import vector_units
from fuselight.shared.started_processes import TRACE, process_variables

_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


@contextlib.contextmanager
def logged_compiles(log: str, cache: str) -> Iterator[None]:
    """Inside, what compiles is logged to the folder `log`, and finds and leaves cache entries in `cache`."""
    users_caches = vector_units.own_caches()
    for variable, folder in _CACHES.items():
        os.environ[variable] = os.path.join(cache, folder)
    os.environ[TRACE] = log
    os.environ.update(process_variables(os.environ, log))  # for processes that the program starts
    structured_log.record_to(log)
    with vector_units.tested_in(users_caches):
        try:
            yield
        finally:
            structured_log.flush()
