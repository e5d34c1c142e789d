"""torch's structured log of this process: what it records more than by itself, and when it starts.

Invariant: what torch prints, compiles and caches is the same. A torch without one of these names records less.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from fuselight.adapters.torch_api import structured_log
from fuselight.shared.environment_record import RECORD, allowed_variables

_KEY_LOGGER = "torch._functorch._aot_autograd.autograd_cache"


def record_more() -> None:
    """Record the factors of AOTAutograd's cache keys, and the variables of this process in its log.

    A fork of a process that does so already goes on with it.
    """
    handler = _trace_handler()
    if handler is None or any(isinstance(known, _EnvironmentRecord) for known in handler.filters):
        return
    handler.addFilter(_EnvironmentRecord())
    record_key_factors(logging.getLogger(_KEY_LOGGER))


def trace_into(folder: str) -> None:
    """Write this process's log into a folder, if torch writes none: for a fork of a process without a log."""
    from torch._logging import _internal  # noqa: PLC0415 - a fork without torch never comes here

    handler = _trace_handler()
    if handler is None or handler.root_dir is not None:
        return
    handler.root_dir = folder
    if handler not in _internal.trace_log.handlers:  # torch removes one without a folder
        _internal.trace_log.addHandler(handler)
    structured_log.forget_names()


def record_key_factors(logger: logging.Logger) -> None:
    """Have a logger answer that it is on DEBUG, which torch asks before it lists factors; print what it printed."""
    own = logger.level

    def is_printed(record: logging.LogRecord) -> bool:
        above = logger.parent.getEffectiveLevel() if logger.parent is not None else logging.WARNING
        return record.levelno >= (own or above)

    logger.setLevel(logging.DEBUG)
    logger.addFilter(is_printed)


class _EnvironmentRecord(logging.Filter):
    """Writes the variables of a process immediately before the first record of its log."""

    def __init__(self) -> None:
        super().__init__()
        self._process: int | None = None

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - logging's signature
        handler = _trace_handler()
        if self._process != os.getpid() and handler is not None and handler.root_dir is not None:
            self._process = os.getpid()
            _write_artifact(RECORD, allowed_variables(os.environ))
        return True


def _write_artifact(name: str, values: Mapping[str, str]) -> None:
    from torch._logging import _internal  # noqa: PLC0415 - only where torch is

    _internal.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: dict(values),
    )


def _trace_handler() -> Any:
    """The handler of the structured log; None if this torch has none."""
    from torch._logging import _internal  # noqa: PLC0415 - only where torch is

    return getattr(_internal, "LOG_TRACE_HANDLER", None)
