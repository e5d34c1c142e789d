"""Globals that Dynamo adds to a module for its compiled code, and which are no effect of the user's program.

Most have a cleanup hook of torch's. A constant that a trace computed has none and stays: the result of a builtin, or of
a function or method marked with `torch._dynamo.assume_constant_result`. `recorded_constants` notes those.
Invariant: a name counts only while the module has the value under it that Dynamo stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._dynamo import output_graph, utils

from fuselight.adapters.torch_api.patching import wrapped

_CONSTANTS: dict[int, dict[str, Any]] = {}
"""By the id of a module's globals: the constants that Dynamo stored there. The module itself keeps them as long."""


def globals_of_dynamo(scope: Mapping[str, Any]) -> frozenset[str]:
    """Names that Dynamo added to a module's globals."""
    manager = getattr(utils, "CleanupManager", None)
    hooks = getattr(getattr(manager, "instance", None), "values", None)
    with_hook = frozenset(
        hook.name
        for of_code in (list(hooks.values()) if isinstance(hooks, dict) else ())
        for hook in of_code
        if getattr(hook, "scope", None) is scope
    )
    constants = _CONSTANTS.get(id(scope), {})
    return with_hook | {name for name, value in constants.items() if scope.get(name, constants) is value}


def recorded_constants() -> contextlib.AbstractContextManager[None]:
    """Note the constants that Dynamo stores among globals until the block ends."""
    owner: Any = output_graph.OutputGraph
    if not hasattr(owner, "register_attr_or_module"):
        return contextlib.nullcontext()
    return wrapped(owner, "register_attr_or_module", _register)


def _register(real: Callable[..., Any], self: Any, target: Any, *names: Any, **options: Any) -> Any:
    """Register a value, and note the name under which torch stored it, which no global had before."""
    before = set(getattr(self, "nn_modules", ()))
    result = real(self, target, *names, **options)
    if not isinstance(target, (torch.Tensor, torch.nn.Module)):
        _note(getattr(self, "global_scope", {}), target, getattr(self, "nn_modules", {}).keys() - before)
    return result


def _note(scope: Mapping[str, Any], value: Any, names: Iterable[str]) -> None:
    for name in names:
        if name in scope and scope[name] is value:
            _CONSTANTS.setdefault(id(scope), {})[name] = value
