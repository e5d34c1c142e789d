"""The modes of torch in which each function is compiled, and the lines that set them.

Invariant: a value is that of the compile; a line is given only if it is known to have set this very value.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import modes
from fuselight.adapters.torch_api.dynamo.modes import Setting
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Mode, Stack

_MAX = 256
"""Values of modes and settings whose lines are kept."""


@dataclass
class ModeLog:
    """What the program sets while it runs; a `modes.ModeListener`."""

    _set: dict[tuple[str, str], Stack] = field(default_factory=dict)
    """Where a mode or setting got a value last."""
    _settings: dict[Setting, str] = field(default_factory=dict)
    """Each setting that the program has set, and what it was before."""
    _training: weakref.WeakKeyDictionary[torch.nn.Module, tuple[bool, Stack]] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def modes_changed(self, before: dict[str, str], after: dict[str, str]) -> None:
        """The program has changed modes."""
        stack = _user_stack()
        for name, value in after.items():
            if value != before[name]:
                self._keep(name, value, stack)

    def training_changed(self, module: torch.nn.Module, training: bool) -> None:  # noqa: FBT001 - as torch's
        """The program has called `train` or `eval` of a module; a module calls it for those that it holds."""
        self._training[module] = training, _user_stack()

    def setting_changed(self, setting: Setting, before: str) -> None:
        """The program, a library or torch has set a setting."""
        stack = _user_stack(only_if_direct=True)
        if stack and len(self._settings) < _MAX:
            self._settings.setdefault(setting, before)
            self._keep(setting.full_name, setting.value, stack)

    def _keep(self, name: str, value: str, stack: Stack) -> None:
        if stack and ((name, value) in self._set or len(self._set) < _MAX):
            self._set[name, value] = stack

    def read(self) -> tuple[Mode, ...]:
        """The modes of this moment that are not at their default."""
        changed = [
            Mode(name, value, modes.DEFAULTS[name], self._set.get((name, value), ()))
            for name, value in modes.modes().items()
            if value != modes.DEFAULTS[name]
        ]
        for setting, before in self._settings.items():
            name, value = setting.full_name, setting.value
            if value != before:
                changed.append(Mode(name, value, before, self._set.get((name, value), ())))
        return tuple(changed)

    def of_modules(self, called: Iterable[torch.nn.Module]) -> tuple[Mode, ...]:
        """Whether modules that look at it are in eval mode."""
        concerned = [module for module in called if modes.reads_training(module)]
        evaluated = [module for module in concerned if not module.training]
        if not evaluated:
            return ()
        training, stack = self._training.get(evaluated[0], (True, ()))
        part = "" if len(evaluated) == len(concerned) else f" ({len(evaluated)} of {len(concerned)})"
        return (Mode("modules in", f"eval() mode{part}", "train() mode", () if training else stack),)


def _user_stack(*, only_if_direct: bool = False) -> Stack:
    """The user's and third parties' frames above what calls this, or the function that a decorator gives a mode.

    `only_if_direct`: none if torch's own code made the call, except for what the call of a `with` consists of.
    """
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    while frame is not None:
        path = frame.f_code.co_filename
        if stacks.is_shown(path):
            return stacks.from_frames(stacks.frames_from(frame), _MAX_FRAMES)
        code = modes.decorated_code(frame)
        if code is not None and stacks.is_shown(code.co_filename):
            return (stacks.def_location(code),)
        if only_if_direct and not (stacks.is_ours(path) or path.endswith(_OF_PATCHES)):
            return ()
        frame = frame.f_back
    return ()


_MAX_FRAMES = 6
_OF_PATCHES = ("_config_module.py", "contextlib.py")
