"""Makes Triton compile for a target without a GPU or a driver, for one block of code.

Invariant: every replaced attribute is restored when the block ends, even by an exception, and in a child forked
while another thread was inside. Nothing is launched, no thread starts, and no GPU or driver of Triton's is queried. A
process runs one block at a time, because Triton keeps its driver in one global variable.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor.amd_heuristics import register_amd_heuristics
from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names


class CompileOnlyDriver:
    """Answers what Triton asks its driver while it compiles: for which target."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        """The target that kernels are compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """The default one."""
        del device
        return 0

    def get_active_torch_device(self) -> torch.device:
        """The device as torch calls it: AMD's too are `cuda`."""
        return torch.device("cuda", 0)

    def is_active(self) -> bool:
        """It is, inside of the block."""
        return True


class _ReplacedDriver:
    """Who is inside, and how what was replaced is put back."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.thread = 0
        self.undo: list[contextlib.ExitStack] = []

    def after_fork(self) -> None:
        """In the child only the thread that forked lives on: a lock or a driver of another one would stay for ever."""
        if self.thread != threading.get_ident():
            while self.undo:
                self.undo.pop().close()
            self.lock, self.thread = threading.RLock(), 0


_replaced = _ReplacedDriver()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replaced.after_fork)


@contextlib.contextmanager
def virtual_driver(target: Any, cache: str) -> Iterator[None]:
    """Let Triton compile for `target`, a `GPUTarget`, and write what it makes to the folder `cache`.

    Its settings are the default ones for what decides on the texts: line information on, no interpreter, no dumps.
    """
    knobs = names.knobs()
    with _replaced.lock, contextlib.ExitStack() as undo:
        outer, _replaced.thread = _replaced.thread, threading.get_ident()
        _replaced.undo.append(undo)
        try:
            undo.enter_context(patched(names.driver(), "_active", CompileOnlyDriver(target)))
            for group in (knobs.cache, knobs.compilation, knobs.runtime):
                undo.enter_context(group.scope())
            knobs.cache.dir = cache
            knobs.cache.manager_class = None  # a remote one is not asked
            knobs.compilation.disable_line_info = False
            knobs.compilation.dump_ir = False
            knobs.compilation.override = False
            knobs.compilation.store_binary_only = False
            knobs.runtime.interpret = False
            knobs.runtime.override_arch = None
            if target.backend == "hip":
                # Inductor's heuristics ask torch's build, not the target, which vendor it is.
                undo.enter_context(patched(torch.version, "hip", torch.version.hip or "6.0"))
                register_amd_heuristics()
            yield
        finally:
            undo.close()
            if undo in _replaced.undo:
                _replaced.undo.remove(undo)
            _replaced.thread = outer
