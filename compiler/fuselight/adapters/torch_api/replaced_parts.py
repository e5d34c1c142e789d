"""Parts of the compiler that the program sets: options, passes, lowerings, decompositions, printers, methods.

Invariant: `leave_out` restores what torch had when it was first called for that name, which is before the program runs.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from fuselight.adapters.torch_api import settings

_PACKAGES = ("torch._decomp", "torch._dynamo", "torch._functorch", "torch._inductor")
_TABLES = (
    "torch._decomp.decomposition_table",
    "torch._inductor.decomposition.decompositions",
    "torch._inductor.lowering.lowerings",
)
"""Dictionaries from operators to functions."""
_CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
_CACHES = {
    "torch._functorch.config.enable_autograd_cache": False,
    "torch._inductor.config.fx_graph_cache": False,
}
"""Their keys have settings, and no other part of the compiler."""
_SHOWS = re.compile(
    r"(?:^|[._])(?:debug|verbose|progress|log|logpath|profil(?:er?|ing)|dump|timeout)(?:[._]|$)"
)
"""In the names of settings that decide what is shown, or how long something may take."""
_ACTS = re.compile(r"pass|cudagraph")
"""In the names of settings that are in no key of a cache, and change what is generated."""
_ABSENT = object()
_originals: dict[str, Any] = {}
"""What torch has by the name of each part that was left out."""


def replaced_parts(is_users: Callable[[str], bool], before: Mapping[str, str]) -> tuple[str, ...]:
    """Names of settings that differ from their default and from `before`, and of what has the user's code.

    Settings that cannot change a result are left out.
    """
    changed = (name for name, text in changed_settings().items() if before.get(name) != text)
    return (*(name for name in changed if _is_of_results(name)), *sorted(_users_code(is_users)))


def _is_of_results(name: str) -> bool:
    """Whether a setting may change a result: torch itself names most that do not, to leave them out of its hashes."""
    owner = next(module for module in _CONFIGS if name.startswith(f"{module}."))
    config, key = sys.modules[owner], name.removeprefix(f"{owner}.")
    if name in _CACHES or key in getattr(config, "_compile_ignored_keys", ()) or _SHOWS.search(key):
        return False
    outside = tuple(getattr(config, "_cache_config_ignore_prefix", ()))
    return not key.startswith(outside) or _ACTS.search(key) is not None


def changed_settings() -> dict[str, str]:
    """Settings that differ from their default, by full name, with what tells their values apart."""
    changed: dict[str, str] = {}
    for module in _CONFIGS:
        config = sys.modules.get(module)
        for key, entry in getattr(config, "_config", {}).items():
            if getattr(entry, "alias", None) is not None or getattr(entry, "deprecated", False):
                continue
            value, name = getattr(config, key, None), f"{module}.{key}"
            if value != getattr(entry, "default", None):
                changed[name] = repr(value)
    return changed


def without_options(
    asked: Mapping[str, Any], seen: dict[str, None], left_out: Collection[str]
) -> dict[str, Any]:
    """The arguments of torch.compile without the options in `left_out`; the names of all are added to `seen`."""
    options = asked.get("options")
    if not isinstance(options, Mapping):
        return dict(asked)
    names = {key: f'options["{key}"]' for key in options}
    seen.update(dict.fromkeys(names.values()))
    kept = {key: options[key] for key, name in names.items() if name not in left_out}
    return {**asked, "options": kept or None}


def leave_out(name: str) -> None:
    """Restore a part of the compiler. Raises AttributeError if torch does not have it."""
    owner, key = _located(name)
    if name.startswith(_CONFIGS):
        original = _originals.setdefault(name, copy.copy(getattr(owner, key)))
        setattr(owner, key, copy.copy(original))  # the program may add to the value itself
        return
    table = owner if isinstance(owner, dict) else vars(owner)
    original = _originals.setdefault(name, table.get(key, _ABSENT))
    for cache, value in _CACHES.items():
        settings.set_torch_setting(cache, value)
    if table.get(key, _ABSENT) is original:
        return
    if isinstance(owner, dict):
        owner.pop(key, None) if original is _ABSENT else owner.update({key: original})
    else:
        delattr(owner, key) if original is _ABSENT else setattr(owner, key, original)
    for module in _modules():
        if "decomposition" in module.__name__:  # tables that were made of `decompositions`
            for value in vars(module).values():
                if hasattr(type(value), "cache_clear"):
                    value.cache_clear()


def _located(name: str) -> tuple[Any, Any]:
    """The object that has a part, and its key there."""
    path, _, key = name.removesuffix("]").partition("[")
    owner, _, attribute = path.rpartition(".")
    try:
        container = pkgutil.resolve_name(path if key else owner)
    except (ImportError, ValueError) as error:
        raise AttributeError(f"torch has no {path}: {error}") from None
    return (
        (container, next((each for each in container if str(each) == key), key))
        if key
        else (container, attribute)
    )


def _users_code(is_users: Callable[[str], bool]) -> Iterator[str]:
    """Entries of tables, functions of modules and methods of classes that have code of the user's."""
    for name in _TABLES:
        module, _, table = name.rpartition(".")
        for operator, function in getattr(sys.modules.get(module), table, {}).items():
            if is_users(_file(function)):
                yield f"{name}[{operator}]"
    for module in _modules():
        names: Mapping[str, Any] = vars(module)
        classes = (
            each for each in names.values() if inspect.isclass(each) and each.__module__ == module.__name__
        )
        for path, owner in (
            (module.__name__, names),
            *((f"{each.__module__}.{each.__qualname__}", vars(each)) for each in classes),
        ):
            yield from (f"{path}.{key}" for key, value in owner.items() if is_users(_file(value)))


def _modules() -> list[Any]:
    return [
        module
        for name, module in sys.modules.items()
        if name.startswith(_PACKAGES) and inspect.ismodule(module)
    ]


def _file(value: Any) -> str:
    """The file of a function's code, through what wraps it; empty for anything else."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.partial):
        value = value.func
    # Nothing else is asked for attributes: a library that is loaded answers any name.
    if not inspect.isfunction(value):
        return ""
    code = getattr(inspect.unwrap(value), "__code__", None)
    return code.co_filename if inspect.iscode(code) else ""
