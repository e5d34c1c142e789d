"""A call compared with the same call in another configuration of torch.compile.

Invariant: the program's own torch.compile calls keep their backends, modes and options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.measure.accuracy import rules
from fuselight.replay.preparation import prepared, prepared_inductor
from fuselight.shared.configurations import Configuration, parse_configuration
from fuselight.shared.report import Accuracy, Difference, NextToEager
from fuselight.shared.report.tuned import Preparation
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.first_line import SwitchedBackends
from fuselight.worker.results.verdicts import References, judged

_WORDS = 300
_EAGER = re.compile(r"\beager(?: mode|'s)?(?!\w)")
_CUDA_GRAPHS = "triton.cudagraphs"
"""Left out as the program's own are."""


class OtherConfiguration:
    """Compiles what the program compiles as a configuration says, and compares the two."""

    def __init__(self, name: str, backends: SwitchedBackends) -> None:
        """`backends`: those of the program. Raises ConfigurationError."""
        self._configuration = parse_configuration(name)
        self._backends = backends
        self._backend: Any = None
        """One for all functions: Dynamo keeps its code by backend."""
        self._compiled: list[tuple[Any, Callable[..., Any]]] = []
        """By function. A list, as functions may not be hashable."""

    def judged(
        self,
        function: Any,
        recorded: RepeatedCall,
        compiled: CallRecord,
        references: References,
        *,
        training: bool,
    ) -> tuple[Accuracy, tuple[Difference, ...], NextToEager | None]:
        """The verdict on a compiled call next to the other configuration, and which of the two is as in eager mode."""
        other = recorded.repeated(self._of(function), compiled=True)
        if other.raised and not references.eager.raised:
            why = f"with `{self._configuration.name}` the call raises {other.raised}: {other.message}"
            return rules.not_compared(why[:_WORDS]), (), None
        # The rest is as next to eager mode: float64, what eager mode does not do twice, and what rounding may do.
        verdict, others = judged(compiled, replace(references, compared=other), training=training)
        if verdict.passed and not others:
            # A result passes that is closer to float64 than what it is compared with: here, neither is the reference.
            reverse, _ = judged(other, replace(references, compared=compiled), training=training)
            verdict = reverse if reverse.passed is False else verdict
        verdict = replace(verdict, why=self._named(verdict.why))
        others = tuple(replace(difference, text=self._named(difference.text)) for difference in others)
        if verdict.passed is not False and not others:
            return verdict, others, None
        own, theirs = (_differs(record, references, training=training) for record in (compiled, other))
        return verdict, others, NextToEager(own, theirs)

    def _of(self, function: Any) -> Callable[..., Any]:
        known = next((compiled for of, compiled in self._compiled if of is function or of == function), None)
        if known is not None:
            return known
        self._backends.leaves_alone = True
        try:
            compiled: Callable[..., Any] = torch.compile(function, **self._arguments())
        finally:
            self._backends.leaves_alone = False
        self._compiled.append((function, compiled))
        return compiled

    def _named(self, text: str) -> str:
        """A text about a difference from eager mode, with the name of the configuration."""
        name = f"`{self._configuration.name}`"
        return _EAGER.sub(lambda match: f"that of {name}" if match[0].endswith("'s") else name, text)

    def _arguments(self) -> dict[str, Any]:
        asked = self._configuration
        arguments: dict[str, Any] = {"dynamic": asked.dynamic, "fullgraph": asked.fullgraph}
        if asked.backend is not None and asked.options:
            arguments["options"] = asked.options
        if self._backend is None:
            self._backend = _backend_of(asked)
        return {**arguments, "backend": self._backend}


def _backend_of(asked: Configuration) -> Any:
    if asked.backend is not None:
        if asked.preparation == Preparation():
            return asked.backend
        return prepared(asked.preparation, targets.backend_named(asked.backend))
    options = {**asked.options, _CUDA_GRAPHS: False}
    return prepared_inductor(asked.preparation, asked.mode, options, dynamic=asked.dynamic)


def _differs(record: CallRecord, references: References, *, training: bool) -> bool | None:
    """Whether a call differs from eager mode; None if that is not decided."""
    verdict, others = judged(record, references, training=training)
    return True if others else None if verdict.passed is None else not verdict.passed
