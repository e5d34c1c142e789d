# ruff: noqa: SLF001 - private names are this package's business
"""The settings of Dynamo and of `torch.compiler`, and the state of this process before a run.

Invariant: reading a setting prints nothing into the user's program; `warm_up` removes everything that it compiled.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import os
import pkgutil
import sys
import traceback
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.guards
import torch.overrides
from torch._subclasses.fake_tensor import FakeTensorMode

from fuselight.adapters.torch_api import devices
from fuselight.adapters.torch_api.patching import patched, wrapped

_TIMINGS = "cache"
"""The folder in Inductor's caches that has how long each implementation of a multiplication takes, by its source."""


def setting(name: str) -> object:
    """The value of `torch._dynamo.config.<name>`, None where this torch has no such setting."""
    return getattr(torch._dynamo.config, name, None)


def recompile_limit() -> int:
    """How many versions of one function torch compiles before it runs in eager mode."""
    limit = setting("recompile_limit")  # an alias of `cache_size_limit` before 2.6
    return limit if isinstance(limit, int) else 8


def raise_recompile_limit(more: int) -> None:
    """Let each function have so many more versions."""
    set_dynamo_config("recompile_limit", recompile_limit() + more)


def count_compiles() -> int:
    """How many frames this process has compiled."""
    return int(torch._dynamo.utils.counters["frames"]["ok"])


def recompile_limit_of(number: int) -> contextlib.AbstractContextManager[None]:
    """Inside, torch compiles `number` versions of one function before it runs in eager mode."""
    name = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    change: contextlib.AbstractContextManager[None] = torch._dynamo.config.patch(name, number)
    return change


def makes_dynamic() -> bool:
    """Whether a size or a number that changed between two calls becomes symbolic."""
    return bool(setting("automatic_dynamic_shapes"))


def changed_config() -> dict[str, str]:
    """Settings that are not at their default: name to repr. Those of `torch.compiler.config` begin with `compiler.`."""
    shared = getattr(torch.compiler, "config", None)  # of 2.7 and newer
    return {
        **_changed(torch._dynamo.config),
        **{f"compiler.{name}": value for name, value in _changed(shared).items()},
    }


def _changed(config: Any) -> dict[str, str]:
    out: dict[str, str] = {}
    entries: Mapping[str, Any] = getattr(config, "_config", {})
    for name, entry in entries.items():
        if name.startswith("_") or getattr(entry, "alias", None) is not None:
            continue
        if getattr(entry, "deprecated", False):
            continue  # reading one prints a warning into the user's program, and it does nothing
        value, default = getattr(config, name, None), getattr(entry, "default", None)
        if value != default and not callable(value):
            out[name] = repr(value)
    return out


_MODULES = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")


def literal_text(value: object) -> str | None:
    """Python text of a value that is plain data; None for any other."""
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def literal_settings() -> dict[str, str]:
    """Settings of the compiler that are not at their default and are plain data: full name to Python text."""
    changed = {
        f"{module}.{name}": text
        for module in _MODULES
        if module in sys.modules
        for name, text in _changed(sys.modules[module]).items()
    }
    return {name: text for name, text in changed.items() if _is_literal(text)}


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


@contextlib.contextmanager
def eager_random_numbers() -> Iterator[None]:
    """Inside, Inductor generates code that draws the random numbers of eager."""
    inductor: Any = sys.modules.get("torch._inductor.config")
    if inductor is None:  # another backend
        yield
        return
    with inductor.patch(fallback_random=True):
        yield


def draws_eager_random_numbers() -> bool:
    """Whether Inductor generates code that draws the random numbers of eager."""
    return bool(getattr(sys.modules.get("torch._inductor.config"), "fallback_random", False))


@contextlib.contextmanager
def inductor_in_this_process() -> Iterator[None]:
    """Inside, Inductor compiles all graphs in this process, and its code draws the random numbers of eager.

    Its caches of graphs do not tell two custom operators with the same name apart.
    """
    inductor: Any = importlib.import_module("torch._inductor.config")
    functorch: Any = importlib.import_module("torch._functorch.config")
    with (
        inductor.patch(fallback_random=True, compile_threads=1, fx_graph_cache=False),
        functorch.patch(enable_autograd_cache=False),
    ):
        yield


@contextlib.contextmanager
def inductor_without_workers() -> Iterator[None]:
    """Inside, Inductor compiles in this process and looks for no graph in its caches."""
    inductor: Any = importlib.import_module("torch._inductor.config")
    functorch: Any = importlib.import_module("torch._functorch.config")
    with (
        inductor.patch(compile_threads=1, fx_graph_cache=False),
        functorch.patch(enable_autograd_cache=False),
    ):
        yield


def set_dynamo_config(name: str, value: object) -> None:
    """Change one of Dynamo's settings for this process. Raises AttributeError for a name that it does not have.

    A list of full names of functions is added to a setting that is a set of functions. A name with dots is that of a
    setting in another module of torch.
    """
    if "." in name:
        set_torch_setting(name, value)
        return
    if not hasattr(torch._dynamo.config, name):
        raise AttributeError(f"torch._dynamo.config has no setting {name}")
    former = getattr(torch._dynamo.config, name)
    if isinstance(former, set) and isinstance(value, list):
        value = former.union(map(pkgutil.resolve_name, value))
    setattr(torch._dynamo.config, name, value)


def set_torch_setting(name: str, value: object) -> None:
    """Change a setting in one of torch's modules, by its full name. Raises AttributeError if it does not exist."""
    module_name, _, setting = name.rpartition(".")
    try:
        module: Any = importlib.import_module(module_name)
    except ImportError:
        raise AttributeError(f"torch has no {module_name}") from None
    if not hasattr(module, setting):
        raise AttributeError(f"{module_name} has no setting {setting}")
    setattr(module, setting, value)


def without_guard_profile() -> contextlib.AbstractContextManager[None]:
    """Inside, torch does not time the guards of each compiled frame for its own logs.

    It overwrites 32 MB of memory first, so that no cache has them: 25 ms for each frame, much of a small trace.
    """
    if not hasattr(torch._dynamo.guards, "profile_guard_manager"):
        return contextlib.nullcontext()
    return patched(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)


_CONFIGURATION_LOGS = (
    "_get_dynamo_config_for_logging",
    "_scrubbed_inductor_config_for_logging",
    "_compiler_config_for_logging",
    "_functorch_config_for_logging",
)
"""Functions that format all settings as text for the metrics of a compile."""


@contextlib.contextmanager
def without_configuration_logs() -> Iterator[None]:
    """Inside, the metrics that torch keeps of each compile have no settings, unless a trace records them.

    To copy and format the hundreds of settings takes 5 ms for each frame.
    """
    logs: Any = importlib.import_module("torch._logging._internal")

    def when_traced(real: Callable[[], str | None]) -> str | None:
        return real() if logs.trace_log.handlers else None

    with contextlib.ExitStack() as stack:
        for name in _CONFIGURATION_LOGS:
            if hasattr(torch._dynamo.utils, name):
                stack.enter_context(wrapped(torch._dynamo.utils, name, when_traced))
        yield


def warm_up() -> None:
    """Trace a tiny function and a tiny model, so that what Dynamo loads at its first frames is loaded in this process.

    Raises what torch raises for the function. If the model cannot be traced, its traceback is printed: runs may work.
    """

    def tiny(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    with devices.unseen():
        torch.compile(tiny, backend="eager")(torch.ones(2))
        try:
            with torch.random.fork_rng(devices=()):
                torch.compile(_TinyModel(), backend="eager")(torch.ones(2, 4))
        except Exception:  # noqa: BLE001 - torch raises whatever its parts raise
            traceback.print_exc()
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()  # of the model's graph breaks
    torch.overrides.get_overridable_functions()  # Dynamo asks for them at the first function of torch.nn


class _TinyModel(torch.nn.Module):
    """What most models have, and what runs find: submodules, calls of functions, and a graph break.

    At the first call of a function Dynamo imports more of torch.distributed, which takes tens of milliseconds. No
    break of it may make torch warn: it gives each warning once, and the user's program is to have it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)])
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = _half(torch.nn.functional.gelu(layer(x)))
        if x.mean() > 0:
            x = x * self.scale
        return torch.cat([x, x], dim=-1).reshape(2, -1).softmax(-1)


def _half(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5


def fake_tensors() -> contextlib.AbstractContextManager[Any]:
    """Make tensors without data while entered; tensors that exist already are taken as they are.

    A copy of a module, as that of each layer in torch's encoder, has the same mode: for tensors of a copied one, each
    operator would make another storage.
    """
    mode: Any = FakeTensorMode(allow_non_fake_inputs=True)
    mode.__deepcopy__ = lambda _memo: mode
    entered: contextlib.AbstractContextManager[Any] = mode
    return entered


def inductor_options() -> dict[str, Any]:
    """The options of this torch's Inductor (`torch._inductor.list_options()`), with their values in force."""
    config: Any = importlib.import_module("torch._inductor.config")
    names = torch._inductor.list_options()
    copied = config.get_config_copy if hasattr(config, "get_config_copy") else config.shallow_copy_dict
    return {name: value for name, value in copied().items() if name in names}


def inductor_modes() -> tuple[str, ...]:
    """The modes of torch.compile."""
    return tuple(torch._inductor.list_mode_options())


def refused_type(name: str, value: Any) -> str:
    """The type that one of Inductor's options must have, where torch.compile would refuse `value`; else empty."""
    config: Any = importlib.import_module("torch._inductor.config")
    expected: object = config.get_type(name) if hasattr(config, "get_type") else None
    if (
        not isinstance(expected, type)
        or typing.get_origin(expected) is not None
        or isinstance(value, expected)
    ):
        return ""
    return expected.__name__


def find_vector_instructions() -> None:
    """Have Inductor find out which vector instructions it can use: this process and its later forks then know it.

    It compiles and runs a program for each kind, which takes seconds unless Inductor's cache has them.
    """
    module: Any = importlib.import_module("torch._inductor.cpu_vec_isa")
    with contextlib.suppress(Exception):  # without a C++ compiler, each compile says so
        module.pick_vec_isa()


def compile_with_all_workers(most: int = 0) -> None:
    """Have Inductor compile with as many processes as it takes in the user's own program; the host holds it to one.

    `most`: no more than so many, 0 for no such limit.
    """
    config: Any = importlib.import_module("torch._inductor.config")
    threads = config.decide_compile_threads()
    config.compile_threads = min(threads, most) if most else threads


def share_timings(cache: str, timings: str) -> None:
    """Have Inductor, with caches in the folder `cache`, keep its timings of multiplications in the folder `timings`.

    It uses what is there. Where the system has no links, they are not shared.
    """
    os.makedirs(cache, exist_ok=True)
    os.makedirs(timings, exist_ok=True)
    with contextlib.suppress(OSError):
        _drop_failures(timings)
        os.symlink(timings, os.path.join(cache, _TIMINGS), target_is_directory=True)


def _drop_failures(timings: str) -> None:
    """Remove what could not be timed: a process that has the memory for it may try again."""
    for name in os.listdir(timings):
        path = os.path.join(timings, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            kept = json.dumps(_finite(json.loads(text)))
        except ValueError:  # what a process that was killed has left
            continue
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(kept)
        os.replace(f"{path}.new", path)


def _finite(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: _finite(result)
        for name, result in value.items()
        if not (isinstance(result, float) and math.isinf(result))
    }


def fork_compile_workers() -> None:
    """Start Inductor's processes that compile kernels, as forks of this process, which has imported what they need.

    Torch's own way starts a new interpreter that imports torch, which takes longer than many compiles: 9 of 21 s for a
    transformer of 4 layers on a machine with an H100. Forks run no user code and use no device.
    """
    config: Any = importlib.import_module("torch._inductor.config")
    workers: Any = getattr(importlib.import_module("torch._inductor.async_compile"), "AsyncCompile", None)
    if not hasattr(config, "worker_start_method") or not hasattr(workers, "wait_pool_ready"):
        return
    config.worker_start_method = "fork"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: the process is multi-threaded
        workers.wait_pool_ready()


def forget_compiled() -> None:
    """Have every frame compiled again, and forget which cache artifacts this process made."""
    torch._dynamo.reset()
    manager: Any = getattr(sys.modules.get("torch.compiler._cache"), "CacheArtifactManager", None)
    if hasattr(manager, "clear"):
        manager.clear()
