"""FL801 and FL802: compiled code that gives other results than eager, and compiled code that is slower.

Invariant: one finding a configuration that is wrong; that it is slower is said of the fastest one alone, and only where
the spread of both times carries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fuselight.shared.report import Accuracy
from fuselight_server.base.finding import Finding, Related, Span
from fuselight_server.explain.benchmarks.causes import Cause, Statement
from fuselight_server.explain.benchmarks.page import accuracy_words
from fuselight_server.explain.benchmarks.timing_stats import compiled_of, wrong_results
from fuselight_server.explain.benchmarks.verdict import verdict
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import sentence

_ACCURACY_HINTS = (
    "Try `torch._inductor.config.emulate_precision_casts = True`, or float32, to rule out rounding",
    "Or run that part in eager mode with `@torch.compiler.disable`, and report it to PyTorch",
)
_HEADLINES = frozenset({Cause.SLOWER, Cause.ACCURACY, Cause.FAILED})


def measured_findings(context: Context) -> Iterator[Finding]:
    """The findings of a benchmark."""
    measured = context.report.measured
    if measured is None:
        return
    wrong = {
        configuration.name: results
        for configuration in compiled_of(measured)
        if (results := wrong_results(configuration))
    }
    for name, accuracy in wrong.items():
        yield _wrong(context, name, accuracy)
    statements = verdict(context.report)
    is_slower = bool(statements) and statements[0].cause is Cause.SLOWER
    if is_slower and statements[0].configuration not in wrong:
        yield _slower(context, statements)


def _wrong(context: Context, name: str, accuracy: Accuracy) -> Finding:
    home = context.innermost_user_frame(accuracy.first)
    worst = [
        f"{tensor.what}: cosine similarity {_figure(tensor.cosine)}, largest error {_figure(tensor.absolute)}"
        for tensor in accuracy.tensors
        if not tensor.passed
    ][:3]
    first = f" in `{accuracy.first_operator}`" if home and accuracy.first_operator else ""
    return context.finding(
        "FL801",
        f"results of `{name}` differ from eager{first}",
        sentence(f"`{name}`: {accuracy_words(accuracy)}"),
        "This is the first line whose operators return different results." if home else "",
        stack=accuracy.first,
        cost=worst,
        hints=_ACCURACY_HINTS,
    )


def _figure(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.3g}"


def _slower(context: Context, statements: Sequence[Statement]) -> Finding:
    headline, *rest = statements
    causes = [each for each in rest if each.cause not in _HEADLINES]
    finding = context.finding(
        "FL802",
        f"`{headline.configuration}` is slower than eager",
        f"{headline.text}.",
        *(sentence(each.text) for each in causes),
        related=tuple(
            Related(Span(each.place.path, each.place.line), each.text)
            for each in causes
            if each.place is not None
        ),
    )
    return replace(finding, cost=(headline.text,))  # the message begins with it
