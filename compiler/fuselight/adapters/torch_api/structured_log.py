"""torch's structured log (TORCH_TRACE), switched on in a process that has imported torch.

Invariant: what is logged does not change what is compiled, and nothing more is printed.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator
from typing import Any

KEY_LOGGER = "torch._functorch._aot_autograd.autograd_cache"
"""Where it is on DEBUG, AOTAutograd records the components of its cache keys."""


def record_to(folder: str) -> None:
    """Record what torch compiles from now on to a file in `folder`. Raises RuntimeError if this torch cannot."""
    handler = _handler()
    if handler is None:
        raise RuntimeError("this torch has no structured log")
    handler.root_dir = folder
    log: Any = logging.getLogger("torch.__trace")
    if handler not in log.handlers:  # it removes itself at the first record without a folder
        log.addHandler(handler)
    forget_names()
    keys = logging.getLogger(KEY_LOGGER)
    keys.setLevel(logging.DEBUG)
    keys.propagate = False
    keys.addHandler(logging.NullHandler())


def forget_names() -> None:
    """Have torch write the path of each file again: its number may be in no log of this process."""
    structured: Any = importlib.import_module("torch._logging.structured")
    names = getattr(structured, "INTERN_TABLE", None)
    if isinstance(names, dict):
        names.clear()


def flush() -> None:
    """Write what has been recorded."""
    handler = _handler()
    if handler is not None and handler.stream is not None:
        handler.flush()


def _handler() -> Any:
    """The handler that writes the structured log; None in a torch without it."""
    logs: Any = importlib.import_module("torch._logging._internal")
    return getattr(logs, "LOG_TRACE_HANDLER", None)


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Inside, nothing is recorded: the user's TORCH_TRACE is of the program as it is."""
    log = logging.getLogger("torch.__trace")
    before, log.disabled = log.disabled, True  # torch may add its handler again
    try:
        yield
    finally:
        log.disabled = before


@contextlib.contextmanager
def without_other_handlers() -> Iterator[None]:
    """Inside, torch's own handler alone gets the records of the structured log.

    A test runner adds its handler to each logger, and would keep hundreds of records of each compile.
    """
    log = logging.getLogger("torch.__trace")
    others = [handler for handler in log.handlers if handler is not _handler()]
    for handler in others:
        log.removeHandler(handler)
    try:
        yield
    finally:
        for handler in others:
            log.addHandler(handler)
