"""The backward that the program runs itself: its gradients next to those of eager mode, in the state of that time.

A backward that runs code of the user's may read what has changed since the forward, or be given no gradient of an
output. Invariant: the program's own backward runs as without this, and the state is as it was before it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch

from fuselight.adapters.torch_api.backward_runs import call_at_the_end
from fuselight.adapters.torch_api.rounding_noise import RoundingNoise, WrittenMemory
from fuselight.capture.calls.tensors import tensors_in
from fuselight.measure.accuracy import rules
from fuselight.measure.accuracy.results import CallResults, Value, held_tensors
from fuselight.measure.accuracy.rounding import with_rounding
from fuselight.shared.report import Accuracy
from fuselight.shared.report.failure import first_line
from fuselight.worker.results.eager_calls import RepeatedCall, kept_gradients, with_own_graph
from fuselight.worker.results.noted_lines import EagerLines, LineValues
from fuselight.worker.results.saved_state import SavedState, UnsavedError
from fuselight.worker.results.traced_line import departure
from fuselight.worker.results.verdicts import varying_names, without_names
from fuselight.worker.verify.eager_mode import eager_mode

LATER = "in the backward that the program runs"
_STALE = "compiled code uses values that were current in the forward"
_ZEROS = "compiled code passes zeros where eager mode passes no gradient"
Grads = tuple["torch.Tensor | None", ...]
"""What the program passes for each output that has a gradient function, in the order of the outputs."""


class RunsUserCode:
    """Inside, whether Python runs a function of the user's is noted: around a backward, which runs hooks and more."""

    def __init__(self, is_users: Callable[[str], bool]) -> None:
        self._is_users = is_users
        self.has_run = False

    def __enter__(self) -> None:
        """Begin."""
        self._before = sys.getprofile()
        sys.setprofile(self._called)

    def __exit__(self, *_raised: object) -> None:
        """End."""
        sys.setprofile(self._before)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and not self.has_run:
            self.has_run = self._is_users(frame.f_code.co_filename)


@dataclass
class LaterBackward:
    """Waits for the program's backward of one call, and compares."""

    call: RepeatedCall
    compiled: Callable[..., Any]
    save: Callable[[], SavedState]
    """Keeps the state as it then is. Raises UnsavedError."""
    inside: Callable[[], contextlib.AbstractContextManager[None]]
    """What is in force while calls are made again."""
    accept: Callable[[Accuracy], None]
    """Gets the verdict."""
    locates: bool
    """Whether the line is searched of a verdict that is wrong."""
    _handles: list[Any] = field(default_factory=list, init=False)
    _received: dict[int, Sequence[Any]] = field(default_factory=dict, init=False)

    def watch(self, returned: Any) -> bool:
        """Wait for the backward of what the program got. Returns whether it has one."""
        self._outputs: list[tuple[Any, int]] = [
            (tensor.grad_fn, tensor.output_nr) for tensor in _differentiable(returned)
        ]
        nodes = list(dict.fromkeys(node for node, _ in self._outputs))
        for at, node in enumerate(nodes):
            self._handles.append(node.register_prehook(self._receiver(at, len(nodes))))
        self._nodes = {node: at for at, node in enumerate(nodes)}
        return bool(nodes)

    def stop(self) -> None:
        """Wait no more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _receiver(self, at: int, count: int) -> Callable[[Sequence[Any]], None]:
        def received(grads: Sequence[Any]) -> None:
            is_first = not self._received
            self._received[at] = grads
            if count == 1:
                self._finish()
            elif is_first:
                call_at_the_end(self._finish)

        return received

    def _finish(self) -> None:
        if not self._handles:
            return
        self.stop()
        grads = tuple(
            self._received[self._nodes[node]][number] if self._nodes[node] in self._received else None
            for node, number in self._outputs
        )
        try:
            with torch.enable_grad(), self.inside():
                verdict = self._verdict(tuple(grad if grad is None else grad.detach() for grad in grads))
        except (RuntimeError, UnsavedError) as error:  # no second derivative, or state that cannot be kept
            verdict = rules.not_compared(first_line(error))
        self.accept(verdict)

    def _verdict(self, grads: Grads) -> Accuracy:
        runs = _Runs(self.call, self.save(), grads)
        eager = runs.eager()
        varying = varying_names(eager, runs.eager(WrittenMemory()))
        compiled = runs.gradients(self.compiled)
        known, ours = without_names(eager, varying), without_names(compiled, varying)
        if not known.values:
            return rules.not_compared("there is no gradient to compare")
        verdict = rules.compare_results(ours, known, _in_float64(known), training=False)
        if verdict.passed is False:
            verdict = with_rounding(verdict, ours, known, lambda seed: runs.eager(RoundingNoise(seed)))
        if verdict.passed is not False:
            return verdict
        return self._explained(runs, compiled, rules.with_note(verdict, LATER))

    def _explained(self, runs: _Runs, compiled: CallResults, verdict: Accuracy) -> Accuracy:
        """The verdict with what compiled code does in place of eager mode, and the line."""
        variants = ((_STALE, runs.as_in_forward()), (_ZEROS, runs.with_zeros()))
        for why, variant in variants:
            results = variant.eager()
            if not rules.compare_results(compiled, results, _in_float64(results), training=False).passed:
                continue
            verdict = rules.with_note(verdict, why)
            if self.locates:
                departed = departure(variant.noted(), runs.noted())
                verdict = replace(verdict, first=departed.stack, first_why=departed.why)
            break
        return verdict


@dataclass(frozen=True)
class _Runs:
    """Makes the forward in its own state, and then the backward."""

    call: RepeatedCall
    now: SavedState
    grads: Grads
    is_stale: bool = False
    """Whether the backward also runs in the state of the forward."""
    fills: bool = False
    """Whether outputs of which the program passes no gradient get zeros."""

    def as_in_forward(self) -> _Runs:
        return replace(self, is_stale=True)

    def with_zeros(self) -> _Runs:
        return replace(self, fills=True)

    def eager(self, mode: contextlib.AbstractContextManager[Any] | None = None) -> CallResults:
        with eager_mode(), mode or contextlib.nullcontext():
            return self.gradients(self.call.prepared.function)

    def noted(self) -> LineValues:
        """What the backward computes on each line in eager mode."""
        lines = LineValues()
        with eager_mode():
            self.gradients(self.call.prepared.function, around=EagerLines(lines))
        return lines

    def gradients(
        self,
        function: Callable[..., Any],
        around: contextlib.AbstractContextManager[Any] | None = None,
    ) -> CallResults:
        """The gradients; `around` is in force in the backward."""
        try:
            with self._forward_state():
                given = with_own_graph(self.call.prepared)
                returned = function(*given.args, **given.kwargs)
                held = [(name, tensor) for name, tensor in held_tensors(given) if tensor.requires_grad]
                if self.is_stale:
                    with around or contextlib.nullcontext():
                        return self._backward(returned, held)
            with around or contextlib.nullcontext():
                return self._backward(returned, held)
        finally:
            self.now.restore()

    @contextlib.contextmanager
    def _forward_state(self) -> Iterator[None]:
        self.call.state.restore()
        with (
            contextlib.redirect_stdout(self.call.streams[0]),
            contextlib.redirect_stderr(self.call.streams[1]),
        ):
            yield
        self.now.restore()

    def _backward(self, returned: Any, held: Sequence[tuple[str, torch.Tensor]]) -> CallResults:
        outputs = _differentiable(returned)
        pairs = [
            (output, torch.zeros_like(output) if grad is None else grad)
            for output, grad in zip(outputs, self.grads, strict=True)
            if grad is not None or self.fills
        ]
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            [tensor for _, tensor in held],
            [grad for _, grad in pairs],
            allow_unused=True,
        )
        values, skipped = kept_gradients([name for name, _ in held], gradients)
        return CallResults(values, skipped)


def _differentiable(returned: Any) -> list[torch.Tensor]:
    return [tensor for tensor in tensors_in([returned]) if tensor.grad_fn is not None]


def _in_float64(results: CallResults) -> CallResults:
    """The results as their own reference, so that the tolerance decides by itself."""
    wide = tuple(
        Value(value.name, value.tensor.double(), "torch.float64", value.shape)
        for value in results.values
        if value.tensor.is_floating_point()
    )
    return replace(results, values=wide)
