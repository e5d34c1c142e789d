"""A break that was just typed: from the edit to the diagnostic of the rules, at the LSP boundary, on real models.

Edits are those of `live_corpus` that insert a cause which the rules know; each is undone before the next. No trace
takes part: its delay is longer than an edit lasts, and the live run of the file is ready before the first edit is
timed. The other side is `ast.parse` of the file, in turns with the edits.

python -m benchmarks.live_rules [transformers/bert ...]
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.live_corpus.compare import SourceComparison
from benchmarks.live_corpus.edits import edits_of
from benchmarks.live_corpus.page import percentile
from benchmarks.live_corpus.sources import sources
from benchmarks.table import Row, median
from fuselight_server.editor.rules import predict
from tests.support.live_worker import LiveWorker
from tests.support.lsp_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.live_corpus.edits import CorpusEdit
    from benchmarks.live_corpus.sources import Source

SOURCE = "transformers/bert"
EDITS = 60
"""Edits of a source that are tried; most of them insert what the rules know."""
DELAY = 5000
"""Milliseconds before a trace."""
PAUSE = 0.3
"""Seconds between two edits: the server rests after it has looked at a text."""


@dataclass
class RuleTimes:
    """Seconds."""

    predicted: list[float] = field(default_factory=list)
    parsed: list[float] = field(default_factory=list)
    """One `ast.parse` of the file."""
    busy: float = 0.0
    """Processor time of the server for all edits and their ends."""

    def words(self) -> str:
        """The times in milliseconds."""
        late = percentile(self.predicted, 0.95)
        busy = self.busy / max(2 * len(self.predicted), 1)
        return (
            f"{1000 * median(self.predicted):.0f} ms, 95th percentile {1000 * late:.0f} ms; "
            f"{1000 * busy:.0f} ms of the server's processor time for each change"
        )


def rows() -> list[Row]:
    """The promise about the time from a keystroke to what the rules predict."""
    times = measure(next(source for source in sources() if source.name == SOURCE))
    ratio = median(times.predicted) / median(times.parsed)
    name = "a typed break to its diagnostic by rules, over ast.parse of the file"
    return [Row(name, ratio, 3.0, detail=times.words())]


def measure(source: Source) -> RuleTimes:
    """Time the edits of one source."""
    times = RuleTimes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, edits = _edits(source, folder)
        client = Client(settings={"liveDelay": DELAY}, write_bytecode=True)
        try:
            client.start(folder)
            uri = client.open(folder / "model.py")
            client.save(uri)
            client.idle(1)
            server = psutil.Process(client.process.pid)
            for number, edit in enumerate(edits):
                seconds = _predicted(client, uri, edit, 2 * number + 2)
                start = time.perf_counter()
                ast.parse(text)
                times.parsed.append(time.perf_counter() - start)
                if number == 0:  # it starts the live run
                    client.wait(lambda message: "is ready after" in _logged(message), "the live run")
                    before = sum(server.cpu_times()[:2])
                else:
                    times.predicted.append(seconds)
                    times.busy = sum(server.cpu_times()[:2]) - before
        finally:
            client.close()
    return times


def _edits(source: Source, folder: Path) -> tuple[str, list[CorpusEdit]]:
    """The text of a source, written to `model.py`, and edits of it of which the rules predict something."""
    worker = LiveWorker(folder)
    try:
        comparison = SourceComparison(source, worker)
        report = comparison.run(comparison.text)
    finally:
        worker.close()
    text, path = comparison.text, comparison.path
    edits = edits_of(text, path, report, f"rules {source.name}", {"insert": EDITS})
    return text, [edit for edit in edits if predict(report, path, text, edit.text)]


def _predicted(client: Client, uri: str, edit: CorpusEdit, version: int) -> float:
    """Seconds from an edit until the client has its diagnostic. Afterwards the text is as before."""
    time.sleep(PAUSE)
    first, last = edit.lines[0] - 1, edit.lines[-1]
    new = "".join(f"{line}\n" for line in edit.text.split("\n")[first:last])
    since, start = client.mark(), time.perf_counter()
    client.edit(uri, (first, 0), (first, 0), new, version)
    client.notified("textDocument/publishDiagnostics", lambda params: any(_codes(params)), since=since)
    seconds = time.perf_counter() - start
    since = client.mark()
    client.edit(uri, (first, 0), (last, 0), "", version + 1)
    client.notified("textDocument/publishDiagnostics", lambda params: not any(_codes(params)), since=since)
    return seconds


def _codes(published: Any) -> Iterator[str]:
    """The codes of the predicted diagnostics."""
    return (
        diagnostic["code"]
        for diagnostic in published["diagnostics"]
        if "Predicted from your edit" in diagnostic["message"]
    )


def _logged(message: Any) -> str:
    return str(message["params"]["message"]) if message.get("method") == "window/logMessage" else ""


def main() -> int:
    """Measure the sources that are named, one line each."""
    parser = argparse.ArgumentParser(description="Time the rules on edits of real models.")
    parser.add_argument("names", nargs="*", default=[SOURCE], help="as transformers/bert")
    every = RuleTimes()
    for source in (source for source in sources() if source.name in parser.parse_args().names):
        times = measure(source)
        every.predicted += times.predicted
        every.parsed += times.parsed
        every.busy += times.busy
        print(f"{source.name}: {len(times.predicted)} edits, {times.words()}", flush=True)
    print(f"all: {len(every.predicted)} edits, {every.words()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
