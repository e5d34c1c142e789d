"""What torch.compile does in the kernel, from `%load_ext fuselight` on, and the part of it that one cell caused.

Invariant: recording starts when torch's compiler is first imported and never imports it. It observes: the user's own
backend compiles. What is recorded is bounded: a recorder that has seen `MAX_COMPILES` compiles is replaced by another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

from fuselight.adapters.environment import environment, versions
from fuselight.shared.import_hooks import AfterImport
from fuselight.shared.inputs.records import ConstructorCalls
from fuselight.shared.report import Inputs, Problem, Report, Rung, TargetRef, Tier

if TYPE_CHECKING:
    from fuselight.capture.dynamo import Parts, Recorder

MAX_COMPILES = 5000
_GROWING = ("compiles", "breaks", "recompiles", "not_compiled", "unseen", "problems")
"""The parts of a recording that have an entry for each event."""


class CallListener(Protocol):
    """Is given each call that compiles."""

    def called(self, code: CodeType, f_locals: Mapping[str, object], constructors: ConstructorCalls) -> None:
        """Take in a call that is being compiled."""


@dataclass(frozen=True)
class Mark:
    """The moment when a run began."""

    run: int
    """The number of the run, which its events have as `call`."""
    parts: Parts | None
    recorder: int
    """How many recorders there were before."""


@dataclass
class KernelRecording:
    """The recording of one kernel."""

    roots: tuple[str, ...]
    listener: CallListener
    _constructors: ConstructorCalls = field(init=False)
    _recorder: Recorder | None = None
    _finders: tuple[AfterImport, ...] = ()
    _number: int = 0
    _runs: int = 0
    _problems: list[Problem] = field(default_factory=list)
    _pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self._constructors = ConstructorCalls(self.roots)

    def start(self) -> None:
        """Record from now on, or from the import of torch's compiler on."""
        finders = []
        for name, then in (("torch", self._constructors.listen), ("torch._dynamo", self._enter)):
            if name in sys.modules:
                then()
            else:
                finders.append(AfterImport(name, then))
        self._finders = tuple(finders)
        sys.meta_path[:0] = self._finders

    def stop(self) -> None:
        """Record no more, and undo what recording has changed."""
        for finder in self._finders:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
        self._constructors.stop()
        self._leave()

    @property
    def dropped(self) -> bool:
        """Whether early compiles are no longer kept."""
        return self._number > 0

    @contextlib.contextmanager
    def run(self) -> Iterator[Mark]:
        """Mark what is recorded inside the block as the work of one run."""
        self._runs += 1
        mark = Mark(self._runs, self._parts(), self._number)
        # With a number of its own, an event differs from an equal one of another run.
        with self._recorder.call(mark.run) if self._recorder is not None else contextlib.nullcontext():
            yield mark

    def recorded_report(self, target: TargetRef, since: Mark | None = None) -> Report:
        """What was recorded, or only what was recorded since a moment."""
        report = Report(
            versions=versions(),
            target=target,
            tier=Tier.CAPTURE,
            generation=0,
            inputs=Inputs(Rung.KERNEL, target.path),
            environment=environment(),
            problems=tuple(self._problems),
            roots=self.roots,
        )
        parts = self._parts()
        if parts is None:
            return report
        if since is not None and since.parts is not None and since.recorder == self._number:
            parts = _later(since.parts, parts)
        return dataclasses.replace(report, **{**vars(parts), "problems": (*report.problems, *parts.problems)})

    def bound(self) -> None:
        """Begin again with another recorder if this one holds too much; no run may be under way."""
        parts = self._parts()
        if parts is not None and len(parts.compiles) > MAX_COMPILES:
            self._leave()
            self._number += 1
            self._enter()

    def _parts(self) -> Parts | None:
        return self._recorder.parts() if self._recorder is not None else None

    def _enter(self) -> None:
        if os.getpid() != self._pid:
            return
        try:
            from fuselight.capture.dynamo import Recorder  # noqa: PLC0415 - torch, which has been imported by now

            recorder = Recorder(roots=self.roots, on_call=self._called)
            recorder.__enter__()  # until `stop`
            self._recorder = recorder
        except Exception as error:  # noqa: BLE001 - the user's import goes on as if we were not there
            why = f"{type(error).__name__}: {error}"
            self._problems.append(Problem("dynamo", "this kernel cannot be recorded", why))

    def _leave(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.__exit__(None, None, None)

    def _called(self, code: CodeType, f_locals: Mapping[str, object]) -> None:
        if os.getpid() == self._pid:
            self.listener.called(code, f_locals, self._constructors)


def _later(before: Parts, now: Parts) -> Parts:
    """The entries of `now` that `before` does not have."""
    added: dict[str, Any] = {name: _added(getattr(before, name), getattr(now, name)) for name in _GROWING}
    return dataclasses.replace(now, **added)


def _added(before: Sequence[object], now: Sequence[object]) -> tuple[object, ...]:
    if tuple(now[: len(before)]) == tuple(before):
        return tuple(now[len(before) :])
    return tuple(item for item in now if item not in before)
