"""Changes of the program that its compiled code does not follow, because torch has no guard on them.

With torch 2.13 these are hooks that a module gets after it was compiled (unless skip_nnmodule_hook_guards is off),
hooks of all modules, a method that is replaced in its class, an environment variable that os.getenv reads, or that
os.environ.get does not find, and an object with which a key is looked up, as a member of an enum. Invariant: a change
is reported only if the function was not compiled again after it, for code that was compiled later has it; one that was
undone, only if compiled code was called in between. Code that was compiled while a module had hooks has a guard on
them, and runs whatever hook the module has at a call.

The changes that compiled code itself should make, and does not (`lost_changes`), are kept here too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import types
import weakref
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import frames, lost_changes, version_calls
from fuselight.adapters.torch_api.dynamo.identity_checks import IdentityCheck
from fuselight.adapters.torch_api.dynamo.key_lookups import KeyLookup
from fuselight.adapters.torch_api.dynamo.lost_changes import LostChange
from fuselight.capture.dynamo import stacks
from fuselight.capture.dynamo.placed_checks import PlacedCheck, placed_check
from fuselight.capture.dynamo.placed_lookups import PlacedLookup, placed_lookups
from fuselight.shared import torch_texts
from fuselight.shared.report import Location, Stack, UnseenChange, UnseenKind

_MAX_COMPILES = 512
_MAX_HOOKS = 256
_MAX_MODULES = 5000
_MAX_VARIABLES = 64
_MAX_LOOKUPS = 64
_MAX_ATTRIBUTES = 1000
_LOST = {
    lost_changes.ADDITION: UnseenKind.LOST_ADDITION,
    lost_changes.REMOVAL: UnseenKind.LOST_REMOVAL,
    lost_changes.ORDER: UnseenKind.LOST_ORDER,
    lost_changes.DRAW: UnseenKind.LOST_DRAW,
}

_HOOKS = frozenset(
    {
        *("register_forward_hook", "register_forward_pre_hook"),
        *("register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"),
        *("register_module_forward_hook", "register_module_forward_pre_hook"),
        *("register_module_full_backward_hook", "register_module_full_backward_pre_hook"),
        "register_module_backward_hook",
    }
)
"""Functions that register a hook of a call. Hooks of tensors, optimizers and state dicts run with compiled code too."""


@dataclass(frozen=True)
class _Method:
    owner: weakref.ref[type]
    name: str
    code: CodeType


@dataclass(frozen=True)
class _Variable:
    """An environment variable that a trace read."""

    name: str
    value: str | None
    stack: Stack


@dataclass(frozen=True)
class _CompiledFunction:
    """One version of a compiled function: the modules that it calls, and what it was compiled for."""

    number: int
    function: str
    location: Location
    modules: tuple[weakref.ref[torch.nn.Module], ...]
    methods: tuple[_Method, ...]
    variables: tuple[_Variable, ...] = ()
    lookups: tuple[PlacedLookup, ...] = ()
    checks: tuple[PlacedCheck, ...] = ()
    guarded_hooks: frozenset[int] = frozenset()
    """The `id` of each dict of hooks that was not empty: torch has a guard on it."""

    @property
    def key(self) -> tuple[str, Location]:
        """The function, whichever version of it."""
        return self.function, self.location


@dataclass(frozen=True)
class _Hook:
    identity: int
    versions: frozenset[int]
    """The numbers of the versions that call the module, and have no guard on its hooks."""
    kind: str
    """The name of the function that registered it."""
    owner: str
    """The class of the module; empty for a hook of all modules."""
    stack: Stack


@dataclass
class UnseenLog:
    """The compiled functions of one recording, and the hooks that were registered meanwhile."""

    _compiled: list[_CompiledFunction] = field(default_factory=list)
    _hooks: list[_Hook] = field(default_factory=list)
    _removed: set[int] = field(default_factory=set)
    _missed: dict[UnseenChange, int | None] = field(default_factory=dict)
    """Changes at a call of compiled code that does not follow them, with the identity of a hook."""
    _read: list[_Variable] = field(default_factory=list)
    """Variables that the compile under way has read."""
    _lookups: list[KeyLookup] = field(default_factory=list)
    """What the compile under way has looked up by objects."""
    _checks: list[PlacedCheck] = field(default_factory=list)
    """The comparisons by `is` of the compile under way."""
    _globals: dict[int, Mapping[str, object]] = field(default_factory=dict)
    """The globals of the function of a version, by its number."""
    _managers: dict[int, weakref.ref[Any]] = field(default_factory=dict)
    """The number of a version to its guards."""
    _watched: set[int] = field(default_factory=set)
    _paused: int = 0
    _number: int = 0

    def compiled(
        self,
        function: str,
        location: Location,
        code: CodeType,
        *,
        modules: Container[int],
        traced: Iterable[CodeType],
        variables: Mapping[str, object],
        used: Iterable[object],
    ) -> None:
        """A function was compiled; `modules` are the `id` of those that it calls, `used` the globals that it reads."""
        read, lookups = tuple(self._read), tuple(placed_lookups(self._lookups, variables))
        checks = tuple(self._checks)
        self.compile_started()
        if len(self._compiled) >= _MAX_COMPILES:
            return
        reachable = {id(value): value for value in _reachable([*variables.values(), *used])}
        called = [value for value in reachable.values() if isinstance(value, torch.nn.Module)]
        references = tuple(weakref.ref(module) for module in called if id(module) in modules)
        inlined = {id(other_code): other_code for other_code in traced if other_code is not code}
        kinds = {type(value) for value in reachable.values()} if inlined else set()
        methods = tuple(method for kind in kinds for method in _methods(kind, inlined))
        guarded = frozenset(id(hooks) for module in called for hooks in _hooks_in(module))
        self._compiled.append(
            _CompiledFunction(
                self._next(), function, location, references, methods, read, lookups, checks, guarded
            )
        )

    def last_modules(self) -> list[torch.nn.Module]:
        """The modules that the function that was compiled last calls."""
        known = self._compiled[-1].modules if self._compiled else ()
        return [module for module in (reference() for reference in known) if module is not None]

    def compile_started(self) -> None:
        """A trace starts: it has read no variable, and looked nothing up."""
        self._read, self._lookups, self._checks = [], [], []

    def variable_read(self, name: str) -> None:
        """The trace reads an environment variable, on which it makes no guard."""
        is_known = any(variable.name == name for variable in self._read)  # os.getenv reads by os.environ
        if not is_known and len(self._read) < _MAX_VARIABLES:
            self._read.append(
                _Variable(name, os.environ.get(name), stacks.from_summaries(frames.user_stack()))
            )

    def key_looked_up(self, lookup: KeyLookup) -> None:
        """The trace looks a key up by an object, on which it makes no guard."""
        if len(self._lookups) < _MAX_LOOKUPS:
            self._lookups.append(lookup)

    def identity_checked(self, check: IdentityCheck) -> None:
        """The trace compares two objects that are different."""
        placed = placed_check(check) if len(self._checks) < _MAX_LOOKUPS else None
        if placed is not None:
            self._checks.append(placed)

    def change_lost(self, function: str, location: Location, change: LostChange) -> None:
        """The code of a function does not change a container, as the function does in eager mode."""
        kind, stack = _LOST[change.kind], stacks.from_summaries(change.stack)
        stack = tuple(frame for frame in stack if not stacks.is_polyfill(frame.path))
        name = torch_texts.in_user_words(change.source)
        self._missed.setdefault(UnseenChange(kind, name, function, location, stack), None)

    def guarded(self, manager: Any, global_variables: Mapping[str, object]) -> None:
        """The function that was compiled last got its guards."""
        if self._compiled and self._compiled[-1].number not in self._managers:
            last = self._compiled[-1]
            self._managers[last.number] = weakref.ref(manager)
            self._globals[last.number] = global_variables
            if last.variables or last.lookups or last.checks:
                self._watch(last)

    def close(self) -> None:
        """The recording ends: later calls are none of its."""
        self._paused += 1

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Guards that are checked inside the block stand for no call."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def hook_registered(
        self, module: torch.nn.Module | None, kind: str, hooks: Mapping[Any, Any], identity: int
    ) -> None:
        """A module, or None for all modules, is about to get a hook; `hooks` are those that it has."""
        if len(self._hooks) >= _MAX_HOOKS or not self._compiled or kind not in _HOOKS:
            return
        concerned = [
            compiled_function
            for compiled_function in self._compiled
            if id(hooks) not in compiled_function.guarded_hooks
            and (
                compiled_function.modules
                if module is None
                else any(known() is module for known in compiled_function.modules)
            )
        ]
        if not concerned:
            return
        versions = frozenset(compiled_function.number for compiled_function in concerned)
        owner = "" if module is None else type(module).__name__
        self._hooks.append(_Hook(identity, versions, kind, owner, stacks.calling_frames()))
        for function in concerned:
            self._watch(function)

    def hook_removed(self, identity: int) -> None:
        """A hook is removed: no later call misses it."""
        self._removed.add(identity)

    def changes(self) -> tuple[UnseenChange, ...]:
        """The changes that the newest code of a function does not follow."""
        newest = {function.key: function for function in self._compiled}
        changes = dict[UnseenChange, int | None]()
        for function in newest.values():
            changes |= {**self._hooks_of(function), **dict.fromkeys(_replaced(function))}
        return tuple(
            dataclasses.replace(change, is_removed=identity in self._removed)
            for change, identity in {**changes, **self._missed}.items()
        )

    def _hooks_of(self, function: _CompiledFunction) -> dict[UnseenChange, int | None]:
        """The hooks that are registered and that a version does not run, with their identities."""
        hooks = dict[UnseenChange, int | None]()
        for hook in self._hooks:
            if function.number in hook.versions and hook.identity not in self._removed:
                kind = UnseenKind.HOOK if hook.owner else UnseenKind.GLOBAL_HOOK
                place = (function.function, function.location, hook.stack, hook.kind)
                hooks[UnseenChange(kind, hook.owner, *place)] = hook.identity
        return hooks

    def _watch(self, function: _CompiledFunction) -> None:
        """Look at what each call of a version misses."""
        known = self._managers.get(function.number)
        manager = known() if known is not None else None
        if manager is not None and function.number not in self._watched:
            self._watched.add(function.number)
            version_calls.watch_calls(manager, lambda f_locals: self._called(function, f_locals))

    def _called(self, function: _CompiledFunction, f_locals: Mapping[str, object]) -> None:
        if self._paused:
            return
        known = self._globals.get(function.number, {})
        other = (
            *_other_values(function),
            *_other_entries(function, f_locals),
            *_other_outcomes(function, f_locals, known),
        )
        for change, identity in {**self._hooks_of(function), **dict.fromkeys(other)}.items():
            self._missed.setdefault(change, identity)

    def _next(self) -> int:
        self._number += 1
        return self._number


def _reachable(values: Iterable[object]) -> Iterator[object]:
    """Values, the modules in them, and what these hold: where compiled code finds its modules and helpers."""
    for value in values:
        yield value
        held = [value, *_attributes(value)]
        for other_module in [item for item in held if isinstance(item, torch.nn.Module)]:
            for module in itertools.islice(other_module.modules(), _MAX_MODULES):
                yield module
                yield from _attributes(module)


def _hooks_in(module: torch.nn.Module) -> Iterator[object]:
    """The dicts of hooks of a module that are not empty."""
    for name, value in vars(module).items():
        if name.endswith("_hooks") and isinstance(value, dict) and value:
            yield value


def _attributes(value: object) -> list[object]:
    held = getattr(value, "__dict__", None)
    return list(held.values()) if isinstance(held, dict) and len(held) <= _MAX_ATTRIBUTES else []


def _methods(kind: type, inlined: Mapping[int, CodeType]) -> Iterator[_Method]:
    """The methods of a class that were inlined."""
    for owner in kind.__mro__:
        if owner in {object, torch.nn.Module}:
            continue
        for name, value in list(vars(owner).items()):
            code = _code(value)
            if code is not None and id(code) in inlined:
                yield _Method(weakref.ref(owner), name, code)


def _code(value: object) -> CodeType | None:
    """The code of a plain method or a class method; torch has guards on all else that a class holds."""
    function = value.__func__ if isinstance(value, classmethod) else value
    return function.__code__ if isinstance(function, types.FunctionType) else None


def _replaced(function: _CompiledFunction) -> Iterator[UnseenChange]:
    for method in function.methods:
        owner = method.owner()
        if owner is None or method.name not in vars(owner):
            continue
        code = _code(vars(owner)[method.name])
        if code is not None and code is not method.code and stacks.is_shown(code.co_filename):
            name = f"{owner.__name__}.{method.name}"
            place = (stacks.def_location(code),)
            yield UnseenChange(UnseenKind.METHOD, name, function.function, function.location, place)


def _other_values(function: _CompiledFunction) -> Iterator[UnseenChange]:
    """The variables that have another value than a version was compiled for."""
    for read in function.variables:
        if os.environ.get(read.name) != read.value:
            yield UnseenChange(
                UnseenKind.VARIABLE, read.name, function.function, function.location, read.stack
            )


def _other_entries(function: _CompiledFunction, f_locals: Mapping[str, object]) -> Iterator[UnseenChange]:
    """The lookups that would find something else in this call."""
    for lookup in function.lookups:
        if lookup.finds_another(f_locals):
            yield UnseenChange(
                UnseenKind.KEY, lookup.name, function.function, function.location, lookup.stack
            )


def _other_outcomes(
    function: _CompiledFunction, f_locals: Mapping[str, object], global_variables: Mapping[str, object]
) -> Iterator[UnseenChange]:
    """The comparisons of two objects that are one object in this call."""
    for check in function.checks:
        if check.is_same(f_locals, global_variables):
            yield UnseenChange(
                UnseenKind.IDENTITY, check.name, function.function, function.location, check.stack
            )
