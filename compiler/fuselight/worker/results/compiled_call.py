"""One call of what a program compiles: made in eager mode and in float64, too, and compared.

Invariant: nothing that a comparison prints or changes is left.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.rounding_noise import RoundingNoise, WrittenMemory
from fuselight.capture.calls.calls import Prepared, module_of
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy.results import CallResults
from fuselight.shared.report import Accuracy, Aspect, ComparedCall, NonFinite, NonFiniteKind, NonFiniteOrigin
from fuselight.worker.live.call_records import CallRecord, RecordingStream, random_digests
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.later_backward import RunsUserCode
from fuselight.worker.results.non_finite import kind_in, non_finite_counts
from fuselight.worker.results.other_configuration import OtherConfiguration
from fuselight.worker.results.random_draws import compared_draws
from fuselight.worker.results.saved_state import SavedState
from fuselight.worker.results.verdicts import References, judged
from fuselight.worker.verify.context_cases import user_namespaces


@dataclass
class CompiledCall:
    """One call of what the program compiles."""

    index: int
    function: Any
    compiled: Callable[..., Any]
    prepared: Prepared
    roots: tuple[str, ...]
    since: str
    """As for `record_call`."""
    samples_draws: bool = False
    """Whether random numbers that differ are compared as distributions."""
    has_own_backward: bool = field(default=False, init=False)
    """Whether a backward of the call runs code of the user's."""
    compile_changes_state: bool = field(default=False, init=False)
    """Whether compiling the call changes state of the program, as a backend of its own does that counts graphs."""
    _versions: int | None = field(default=None, init=False)
    """How many frames were compiled when the call had been made once; None before."""

    def is_users(self, path: str) -> bool:
        """Whether a file is the user's."""
        return stacks.is_users(path, self.roots)

    def saved_state(self) -> SavedState:
        """All that the call can reach, as it is now. Raises UnsavedError."""
        names = user_namespaces(self.names, self.is_users)
        namespaces = [known for known in names if isinstance(known, dict)]
        return SavedState(
            [self.function, self.prepared.args, self.prepared.kwargs], namespaces, self.is_users
        )

    @property
    def names(self) -> dict[str, Any]:
        """The globals of the file of the function."""
        main = vars(sys.modules["__main__"])
        plain = inspect.unwrap(getattr(self.function, "__func__", self.function))
        names: dict[str, Any] = getattr(plain, "__globals__", main)
        # Not those of a module of torch, as of its `__call__`.
        return names if self.is_users(str(names.get("__file__", ""))) else main

    def saved(self) -> RepeatedCall:
        """The call, ready to be made again. Raises UnsavedError."""
        return RepeatedCall(
            self.prepared,
            self.names,
            (RecordingStream(_Nowhere()), RecordingStream(_Nowhere())),
            self.roots,
            self.since,
            self.saved_state(),
        )

    def compare(
        self, recorded: RepeatedCall, other: OtherConfiguration | None = None
    ) -> tuple[ComparedCall, References]:
        """Make the call in eager mode twice, in float64 and compiled, each from the same state, and compare.

        With `other`, the call is compared with the same call in that configuration.
        """
        with _silent(recorded.streams):
            before = random_digests()
            start = time.perf_counter()
            recorded.around_backward = backward = RunsUserCode(self.is_users)
            eager = recorded.eager()
            recorded.around_backward, self.has_own_backward = None, backward.has_run
            eager_seconds, of_eager = time.perf_counter() - start, set(recorded.changed_caches)
            float64, why = recorded.float64() if not eager.raised else (None, "")
            references = References(
                eager,
                recorded.eager(WrittenMemory()),
                float64,
                why,
                is_random=eager.random != before,
                draws_as_eager=settings.draws_eager_random_numbers(),
                noise=lambda seed: recorded.eager(RoundingNoise(seed)),
            )
            start = time.perf_counter()
            compiled = recorded.repeated(self.compiled, compiled=True)
            self._versions = settings.count_compiles()
            compiled_seconds = time.perf_counter() - start
            references = replace(
                references, changed_caches=tuple(sorted(of_eager.difference(recorded.changed_caches)))
            )
            next_to_eager = None
            if other is None:
                verdict, others = judged(compiled, references, training=self._trains())
                if any(each.aspect is Aspect.STATE for each in others):
                    again = recorded.repeated(self.compiled, compiled=True)
                    kept = _without_compile(compiled, eager, again)
                    self.compile_changes_state = kept != compiled
                    verdict, others = judged(kept, references, training=self._trains())
            else:
                verdict, others, next_to_eager = other.judged(
                    self.function, recorded, compiled, references, training=self._trains()
                )
            is_wrong = verdict.passed is False or bool(others)
            faults = tuple(recorded.operator_faults()) if is_wrong and not eager.raised else ()
            non_finite = tuple(_non_finite(recorded, eager, compiled, float64))
            is_undecided = references.is_random and verdict.passed is None and not (others or compiled.raised)
            samples = self.samples_draws and is_undecided and not references.draws_as_eager
            draws = compared_draws(recorded, self.compiled) if samples else None
        return replace(
            self.result(verdict),
            others=others,
            is_random=references.is_random,
            eager_seconds=eager_seconds,
            compiled_seconds=compiled_seconds,
            operators=faults,
            non_finite=non_finite,
            next_to_eager=next_to_eager,
            draws=draws,
        ), references

    def non_finite_in_eager(
        self, recorded: RepeatedCall, kind: NonFiniteKind
    ) -> tuple[bool, NonFiniteOrigin | None]:
        """Whether the outputs of the call in eager mode have elements of a kind, and where the first appears."""
        with _silent(recorded.streams):
            results = recorded.eager().results
            outputs = [value.tensor for value in results.values if value.name.startswith("output")]
            has_some = not outputs or kind_in(outputs) is not None
            return has_some, recorded.non_finite_origin(kind) if has_some else None

    def _trains(self) -> bool:
        module = module_of(self.function)
        return torch.is_grad_enabled() and module is not None and module.training

    def result(self, verdict: Accuracy) -> ComparedCall:
        """The call with a verdict."""
        module = module_of(self.function)
        code = targets.code_of(self.function if module is None else module)
        callers = stacks.calling_frames(limit=1)
        return ComparedCall(
            self.index,
            name_of(self.function),
            stacks.def_location(code) if code is not None else None,
            callers[-1] if callers else None,
            verdict,
        )

    def repeated(self) -> Any:
        """Make the call for the program itself. Raises what it raises."""
        if self.compile_changes_state:
            torch.compiler.reset()  # what compiling changed was put back: it is to happen in the program's own call
            self._versions = None
        try:
            return self.compiled(*self.prepared.args, **self.prepared.kwargs)
        finally:
            if self._versions is not None and (more := settings.count_compiles() - self._versions) > 0:
                settings.raise_recompile_limit(more)  # versions that the program alone would not have


def _without_compile(compiled: CallRecord, eager: CallRecord, again: CallRecord) -> CallRecord:
    """The record without state that changes only while the call is compiled: not in eager mode, and not `again`."""

    def kept(words: Mapping[str, str], *others: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in words.items() if any(name in other for other in others)}

    return replace(
        compiled,
        numbers=kept(compiled.numbers, eager.numbers, again.numbers),
        reached=kept(compiled.reached, eager.reached, again.reached),
    )


def _non_finite(
    recorded: RepeatedCall, eager: CallRecord, compiled: CallRecord, float64: CallResults | None
) -> Iterator[NonFinite]:
    """NaN and infinities among the results, with the line where the first of eager mode appears."""
    if eager.raised or compiled.raised:
        return
    for counts in non_finite_counts(eager.results, compiled.results, float64):
        origin = recorded.non_finite_origin(counts.kind) if counts.eager else None
        is_own = counts.kind is NonFiniteKind.INFINITY and counts.eager == counts.compiled
        if (
            origin is not None or not is_own
        ):  # an infinity that the program writes, as into a mask, means nothing
            yield replace(counts, origin=origin)


def name_of(function: Any) -> str:
    """`Net`, `Adam.step`, `train.<locals>.step`."""
    module, owner = module_of(function), getattr(function, "__self__", None)
    if module is not None:
        return type(module).__qualname__
    if owner is not None and not isinstance(owner, type):
        return f"{type(owner).__qualname__}.{getattr(function, '__name__', '')}"
    return getattr(function, "__qualname__", "") or type(function).__qualname__


class _Nowhere(io.TextIOBase):
    """Takes text that nobody reads."""

    def write(self, text: str) -> int:
        """Forget the text."""
        return len(text)


@contextlib.contextmanager
def _silent(streams: tuple[RecordingStream, RecordingStream]) -> Iterator[None]:
    """Inside, the program prints to the streams, and nothing is left out because it was said before."""
    with (
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        yield
