"""The modes and settings of torch that a compile depends on: their values, and where the program sets them.

Invariant: a trace has nothing of what listens: while torch compiles, the functions here only call the originals.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Protocol

import torch

from fuselight.adapters.torch_api.patching import wrapped

DEFAULTS = {
    "grad mode": "on",
    "inference mode": "off",
    "autocast": "off",
    "float32 matmul precision": "highest",
    "default dtype": "float32",
    "default device": "cpu",
    "deterministic algorithms": "off",
}
"""What torch starts with."""
_AUTOCAST_DEVICES = ("cpu", "cuda", "xpu")
_ONLY_LOOKS = re.compile(
    r"(?:^|[._])(?:benchmark|cache|debug|dir|dump|file|log|logs|minifier|path|print|profile|profiler|record|repro"
    r"|report|stats|threads|timeout|trace|tracing|verbose|warn|warnings|worker|workers)(?:$|[._])"
)
"""In names of settings that change what is printed, kept or measured, and no graph."""
_DECORATED = frozenset({"decorate_context", "decorate_autocast"})
"""Functions of torch's that stand for a decorated one, `func`."""


class ModeListener(Protocol):
    """What `listen_to_modes` calls, right after the program has changed something."""

    def modes_changed(self, before: dict[str, str], after: dict[str, str]) -> None:
        """Modes have other values."""

    def training_changed(self, module: torch.nn.Module, training: bool) -> None:  # noqa: FBT001 - as torch's
        """A module was put into train or eval mode."""

    def setting_changed(self, setting: Setting, before: str) -> None:
        """A setting was set; `before` is what it was."""


@dataclass(frozen=True)
class Setting:
    """A setting of one of torch's modules of settings."""

    module: Any
    name: str

    @property
    def full_name(self) -> str:
        """`torch._inductor.config.max_autotune`."""
        return f"{self.module.__name__}.{self.name}"

    @property
    def value(self) -> str:
        """Its value now, as a text."""
        return repr(getattr(self.module, self.name, None))


def modes() -> dict[str, str]:
    """The modes of this thread, by name; those of `DEFAULTS`."""
    inference = torch.is_inference_mode_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the precision was set in two ways
        return {
            # Inference mode turns gradients off by itself.
            "grad mode": "on" if torch.is_grad_enabled() or inference else "off",
            "inference mode": "on" if inference else "off",
            "autocast": _autocast(),
            "float32 matmul precision": _precision(),
            "default dtype": _short(torch.get_default_dtype()),
            "default device": _default_device(),
            "deterministic algorithms": "on" if torch.are_deterministic_algorithms_enabled() else "off",
        }


def _autocast() -> str:
    enabled = [
        f"{device} {_short(torch.get_autocast_dtype(device))}"
        for device in _AUTOCAST_DEVICES
        if _is_autocast(device)
    ]
    return f"on ({', '.join(enabled)})" if enabled else "off"


def _is_autocast(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except (RuntimeError, TypeError):  # a torch without this device
        return False


def _precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set for each backend
        return "other"


def _default_device() -> str:
    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    device = getattr(context, "device", None)
    return "cpu" if device is None else str(device)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def decorated_code(frame: Any) -> CodeType | None:
    """The function that has a mode by its decorator, if this is the frame that stands for it."""
    if frame.f_code.co_name not in _DECORATED:
        return None
    code = getattr(frame.f_locals.get("func"), "__code__", None)
    return code if isinstance(code, CodeType) else None


def reads_training(module: torch.nn.Module) -> bool:
    """Whether the code of a module's class looks at its `training`, as that of a dropout does."""
    return any(
        "training" in getattr(value, "__code__", _NO_CODE).co_names
        for owner in type(module).__mro__
        if owner not in {torch.nn.Module, object}
        for value in vars(owner).values()
    )


_NO_CODE = compile("", "", "exec")


_HEARING: list[ModeListener] = []
"""Who listens. It is no variable of the functions below: a trace of them represents all of their closure."""


@contextlib.contextmanager
def listen_to_modes(listener: ModeListener) -> Iterator[None]:
    """Within the block, `listener` hears of each mode and setting that the program changes."""
    settings: Any = importlib.import_module("torch.utils._config_module")
    with contextlib.ExitStack() as stack:
        _HEARING.append(listener)
        stack.callback(_HEARING.remove, listener)
        for name in _SETTERS:
            if hasattr(torch, name):
                stack.enter_context(wrapped(torch, name, _set_mode))
        stack.enter_context(wrapped(torch.set_grad_enabled, "__init__", _set_mode))
        stack.enter_context(wrapped(torch.inference_mode, "__enter__", _set_mode))
        stack.enter_context(wrapped(torch.autocast, "__enter__", _set_mode))
        stack.enter_context(wrapped(torch.nn.Module, "train", _train))
        stack.enter_context(wrapped(settings.ConfigModule, "__setattr__", _set_setting))
        yield


def _set_mode(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
    if torch.compiler.is_compiling():  # a constant to a trace, which then has nothing of ours
        return real(*args, **named)
    before = modes()
    result = real(*args, **named)
    after = modes()
    if after != before:
        for listener in _HEARING:
            listener.modes_changed(before, after)
    return result


def _train(real: Callable[..., Any], self: Any, mode: bool = True) -> Any:  # noqa: FBT001, FBT002 - as torch's
    result = real(self, mode)
    if not torch.compiler.is_compiling():
        for listener in _HEARING:
            listener.training_changed(self, mode)
    return result


def _set_setting(real: Callable[..., Any], self: Any, name: str, value: object) -> None:
    if name not in getattr(self, "_config", ()) or not _changes_graphs(self, name):
        real(self, name, value)
        return
    setting = Setting(self, name)
    before = setting.value
    real(self, name, value)
    for listener in _HEARING:
        listener.setting_changed(setting, before)


_SETTERS = (
    "set_float32_matmul_precision",
    "set_default_dtype",
    "set_default_device",
    "set_default_tensor_type",
    "use_deterministic_algorithms",
    "set_deterministic_debug_mode",
)


def _changes_graphs(module: Any, name: str) -> bool:
    """Whether a setting can change what is compiled; torch lists those that its cache keys leave out."""
    left_out = (
        *getattr(module, "_cache_config_ignore_prefix", ()),
        *getattr(module, "_save_config_ignore", ()),
    )
    return _ONLY_LOOKS.search(name) is None and not name.startswith(tuple(left_out))
