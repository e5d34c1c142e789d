"""Runs of one program in which compiled calls are compared with eager mode.

Invariant: a call of one run is that of another only with the same index and of the same function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from fuselight.shared.protocol import AccuracyRequest, RunRequest
from fuselight.shared.report import ComparedCall, Problem, Report, ResultComparison
from fuselight_server.execution.runs.planning import with_texts

RESULTS = "results"
"""The stage of a problem that kept a call from being explained."""


class AccuracyRuns:
    """The runs of one program in which calls are compared. Their problems are kept."""

    def __init__(
        self,
        request: RunRequest,
        run: Callable[[AccuracyRequest, str], Awaitable[Report]],
    ) -> None:
        self._request, self._run = request, run
        self.settings: dict[str, str] = {}
        """Of torch, in each run from now on."""
        self.problems: list[Problem] = []

    async def report(
        self,
        words: str,
        *,
        calls: Iterable[int] = (),
        backend: str = "",
        settings: Mapping[str, str] | None = None,
        locate_seconds: float = 0.0,
        kernels: bool = False,
        texts: Mapping[str, str] | None = None,
    ) -> Report:
        """One run, with progress that begins with `words`; `texts`: changed files, with no setting of `settings`."""
        request = with_texts(self._request, texts) if texts else self._request
        asked = request.of_kind(
            AccuracyRequest,
            backend=backend,
            settings={} if texts else {**self.settings, **(settings or {})},
            calls=tuple(sorted(calls)),
            locate_seconds=locate_seconds,
            kernels=kernels,
            preload=True,  # further runs may follow
        )
        return await self._run(asked, words)

    async def further(
        self, words: str, calls: Mapping[int, ComparedCall], *, backend: str = "", locate_seconds: float = 0.0
    ) -> dict[int, ComparedCall]:
        """The same calls in a further run, as far as it made and compared them. Its failures become problems."""
        report = await self.report(words, calls=calls, backend=backend, locate_seconds=locate_seconds)
        for failure in report.failures:
            self.problems.append(Problem(RESULTS, words, failure.message))
        return repeated_calls(report.results, calls)


def repeated_calls(
    results: ResultComparison | None, calls: Mapping[int, ComparedCall]
) -> dict[int, ComparedCall]:
    """Of another run of the program, the calls that are the same: with the same index, of the same function."""
    return {
        call.index: call
        for call in (results.calls if results is not None else ())
        if call.index in calls
        and (call.name, call.location) == (calls[call.index].name, calls[call.index].location)
    }
