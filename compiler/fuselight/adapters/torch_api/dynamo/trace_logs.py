"""torch's structured log of this process: what it records more than by itself, and when it starts.

Invariant: what torch prints, compiles and caches is the same. A torch without one of these names records less.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from fuselight.adapters.torch_api import structured_log
from fuselight.adapters.torch_api.distributed.wait_watch import watch_waits
from fuselight.shared import import_times
from fuselight.shared.environment_record import RECORD, allowed_variables

_KEY_LOGGER = "torch._functorch._aot_autograd.autograd_cache"
_OF_COMPILES = ("frame_id", "compiled_autograd_id", "chromium_event", "dynamo_start")


def record_more() -> None:
    """Record the factors of AOTAutograd's cache keys, and the variables and imports of this process in its log.

    A fork of a process that does so already goes on with it.
    """
    handler = _trace_handler()
    if handler is None or any(isinstance(known, _ProcessRecords) for known in handler.filters):
        return
    handler.addFilter(_ProcessRecords())
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


def record_imports(imports: Mapping[str, object]) -> None:
    """Record imports that another process has timed: `report.Imports` as JSON values."""
    handler = _trace_handler()
    if handler is not None:
        handler.addFilter(_ImportsRecord(imports))


class _ProcessRecords(logging.Filter):
    """Writes the variables of a process before the first record of its log, its imports before its first compile."""

    def __init__(self) -> None:
        super().__init__()
        self._process: int | None = None
        self._timed: int | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Write what is due, and let the record pass."""
        handler, process = _trace_handler(), os.getpid()
        if handler is None or handler.root_dir is None:
            return True
        if self._process != process:
            self._process = process
            _write_artifact(RECORD, allowed_variables(os.environ))
        watch_waits()
        if self._timed != process and _is_of_compile(record):
            self._timed = process
            times = import_times.active()
            imports = None if times is None else times.stop_and_report()
            if imports is not None:
                _write_artifact(import_times.RECORD, imports)
        return True


class _ImportsRecord(logging.Filter):
    """Writes imports before the first record of the log of this process."""

    def __init__(self, imports: Mapping[str, object]) -> None:
        super().__init__()
        self._imports = imports
        self._process = os.getpid()
        self._is_written = False

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - logging's signature
        """Write them, and let the record pass."""
        if not self._is_written and os.getpid() == self._process:
            self._is_written = True
            _write_artifact(import_times.RECORD, self._imports)
        return True


def _is_of_compile(record: logging.LogRecord) -> bool:
    """Whether a record of the log is one of a compile."""
    metadata = getattr(record, "metadata", None)
    return isinstance(metadata, Mapping) and any(name in metadata for name in _OF_COMPILES)


def _write_artifact(name: str, values: Mapping[str, object]) -> None:
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
