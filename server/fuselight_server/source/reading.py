"""What static reading knows of one file: plain data, made by `targets.py`.

Lines are 1-based; columns are 0-based UTF-8 byte offsets, as everywhere outside `convert.py`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from fuselight.shared.protocol import DirectiveLine, InputsPlan, Target
from fuselight_server.base.finding import Span

_CALLED = re.compile(r"([^\W\d]\w*)(\(.*\))?", re.DOTALL)
"""A name, or what a call of it gives: `step`, `Net(dim=64)`; not a part of that, as `Net().head`."""


@dataclass(frozen=True)
class StaticTarget:
    """Something that is compiled, or that the user can point at."""

    name: str
    """Qualified name: `Net`, `Outer.step`, `fast` (a variable assigned from torch.compile)."""
    kind: str
    """`function`, `method`, `module`, `variable`."""
    compiled: bool
    """Whether the source compiles it itself."""
    span: Span
    """The whole definition, decorators included."""
    name_span: Span
    """The name in the `def`, `class` or assignment: where its lens stands."""
    def_line: int
    directives: tuple[DirectiveLine, ...] = ()
    parameters: tuple[str, ...] = ()
    """Names of the parameters of the call (`forward` for a module), self excluded."""
    computes: bool = False
    """Whether it is a module, or a function that computes with tensors: what can be compiled, by its text."""
    wraps: str | None = None
    """For a variable: the expression that is compiled, as `Net()`; for `.compile()`: the object's name."""
    holds: str | None = None
    """For a variable that holds a module: the name of its class, if that is in the file."""
    attribute_of: str | None = None
    """For an attribute of instances, assigned as `self.name = ...`: the name of their class."""

    @property
    def maker(self) -> str | None:
        """The function in whose body it is made, where no call from outside gets at it; None for all else."""
        outer, inside, _ = self.name.partition(".<locals>.")
        return outer if inside else None


@dataclass(frozen=True)
class Ignore:
    """One `# fuselight: ignore[CODE, ...]` comment; `codes` empty means every code."""

    span: Span
    codes: tuple[str, ...]


@dataclass(frozen=True)
class DirectiveProblem:
    """A directive that cannot be used: where exactly and why."""

    span: Span
    message: str
    move_above: int | None = None
    """The line above which the directive would count."""


@dataclass(frozen=True)
class Reading:
    """One file, read."""

    path: str
    targets: tuple[StaticTarget, ...] = ()
    ignores: tuple[Ignore, ...] = ()
    directive_problems: tuple[DirectiveProblem, ...] = ()
    provider: str | None = None
    provider_line: int | None = None
    main_line: int | None = None
    syntax_error: Span | None = None
    """First place that does not parse; targets then come from what does."""
    broken: tuple[Span, ...] = ()
    """The lines of each top-level statement that does not parse."""

    @functools.cached_property
    def _directed(self) -> dict[str, StaticTarget]:
        return {target.name: target for target in reversed(self.targets) if target.directives}

    @functools.cached_property
    def _modules(self) -> frozenset[str | None]:
        return frozenset(target.name for target in self.targets if target.kind == "module")

    def serving(self, target: StaticTarget) -> StaticTarget | None:
        """The class or function whose directives serve for `target`, a variable that compiles it and has none.

        None where the file has something that serves better: a provider, the module that has it, or, for what a
        function makes, the `__main__` block that calls it.
        """
        if target.wraps is None or target.directives or self.provider is not None:
            return None
        if target.attribute_of in self._modules:
            return None
        if target.maker is not None:  # a name may mean something else in there than in the file
            return None if self.main_line is not None else self._directed.get(target.holds or "")
        called = _CALLED.fullmatch(target.wraps)
        return self._directed.get(target.holds or (called[1] if called else ""))

    def plan(
        self,
        target: StaticTarget,
        *,
        recorded: tuple[str, ...] = (),
        default_sizes: dict[str, int] | None = None,
    ) -> InputsPlan:
        """The rungs to try for `target`."""
        return InputsPlan(
            directives=target.directives,
            provider=self.provider,
            provider_line=self.provider_line,
            default_sizes=default_sizes or {},
            recorded=recorded,
            main_line=self.main_line,
        )

    def target_ref(self, target: StaticTarget) -> Target:
        """`target` as the worker's message names it."""
        return Target(
            path=self.path, name=target.name, kind=target.kind, line=target.def_line, compiled=target.compiled
        )
