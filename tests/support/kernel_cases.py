"""Annotated cases of provenance: a source file says, on each line, what is generated from that line.

    y = self.norm(x)  # kernel: triton_per_fused_native_layer_norm  # saves: float32[8, 16]

| comment | expects |
|---|---|
| `# kernel: NAME` | a launch of that kernel in a forward or inference graph, with a part from the line |
| `# backward: NAME` | the same in a backward graph |
| `# fallback: NAME` | a call of ATen's, or of a custom operator's, own code, in any graph |
| `# saves: DTYPE[SIZES]` | a tensor of that storage that autograd keeps of the line for backward |
| `# cudagraph: WORDS` | that the line keeps a graph, or a part of it, from being replayed as a CUDA graph |
| `# unfused: DISTANCE WORDS` | that the scheduler refused to fuse it with the line so many lines away, in our words |

Numbers at the end of kernels' names are omitted, and ` x N` says how often. A line may have several, one after the
other, and those that stand alone in the lines beneath it count as its own. `# kernel(2.11, 2.13): NAME` expects the
kernel with these releases of torch only.

Invariant: a fact without an expectation fails a case just as an expectation without a fact does.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.report import KernelKind, Phase
from fuselight_server.explain.kernels.fusion import plain
from fuselight_server.explain.kernels.shares import place_of, shares
from tests.support.case_files import MAIN_RELEASE, RELEASES, RELEASES_NAMED, named, releases_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fuselight.shared.report import Kernel, Report, Stack

KINDS = ("kernel", "backward", "fallback", "saves", "cudagraph", "unfused")
_COMMENT = re.compile(
    rf"# ({'|'.join(KINDS)}){RELEASES_NAMED}: (.*?)(?: x (\d+))?(?=\s*(?:# (?:{'|'.join(KINDS)})[(:]|$))"
)
_NUMBER = re.compile(r"_\d+$")
_WIDTH = 120


@dataclass(frozen=True, order=True)
class Fact:
    """One fact about a line."""

    line: int
    kind: str
    text: str

    def comment(self, count: int, releases: tuple[str, ...] = RELEASES) -> str:
        return f"# {self.kind}{named(releases)}: {self.text}" + (f" x {count}" if count > 1 else "")


def facts(reports: Iterable[Report], path: str, source: str) -> Counter[Fact]:
    """The counted facts of the reports about the lines of a file; facts without a line are on their target."""
    program = (not _COMMENT.match(line.lstrip()) for line in source.splitlines())
    own = list(itertools.accumulate(map(int, program), initial=0))
    return Counter(
        Fact(line, kind, text) for report in reports for line, kind, text in _facts(report, path, own)
    )


def _facts(report: Report, path: str, own: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """`own` counts for each line the program lines up to it, so that comments below a line do not shift others."""

    def line_of(stack: Stack) -> int:
        place = place_of(stack, report.roots)
        return place.line if place is not None and place.path == path else report.target.line

    for graph in report.generated:
        for kernel in graph.kernels:
            for place in shares(kernel, report.roots):
                inside = place is not None and place.path == path
                line = place.line if place is not None and inside else report.target.line
                yield line, *_named(kernel, graph.phase)
        for tensor in graph.saved:
            if tensor.bytes:
                yield line_of(tensor.stack), "saves", f"{tensor.dtype}[{', '.join(tensor.shape)}]"
        for skip in graph.cudagraph_skips:
            yield line_of(skip.stack), "cudagraph", re.sub(r" \(\d+ instances?\)", "", skip.reason)
        pairs = {
            (plain(refusal.reason), line_of(refusal.first), line_of(refusal.second))
            for refusal in graph.refusals
        }
        for words, first, second in {(words, min(pair), max(pair)) for words, *pair in pairs}:
            yield second, "unfused", f"{own[first] - own[second]} {words}"


def _named(kernel: Kernel, phase: Phase) -> tuple[str, str]:
    if kernel.kind is KernelKind.FALLBACK:
        operator = kernel.operators[0].name if kernel.operators else kernel.name
        return "fallback", ".".join(operator.removeprefix("torch.ops.").split(".")[:2])
    return "backward" if phase is Phase.BACKWARD else "kernel", _NUMBER.sub("", kernel.name)


def expectations(text: str, release: str = MAIN_RELEASE) -> Counter[Fact]:
    """The expectations of a case with a release of torch."""
    counts: Counter[Fact] = Counter()
    above = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not _COMMENT.match(line.lstrip()):
            above = number
        for match in _COMMENT.finditer(line):
            if release in releases_of(match[2]):
                counts[Fact(above, match[1], match[3])] += int(match[4] or 1)
    return counts


def disagreements(text: str, counts: Counter[Fact], release: str = MAIN_RELEASE) -> list[str]:
    """All differences between a case and the facts, as text; empty if they agree."""
    expected = expectations(text, release)
    return [
        f"{count.line}: expected {expected[count]}, found {counts[count]}: {count.comment(1)}"
        for count in sorted(expected | counts)
        if expected[count] != counts[count]
    ]


def rewritten(text: str, totals: Counter[Fact], release: str = MAIN_RELEASE) -> str:
    """The case with rewritten expectations for a release. Those that equal the main one's change with it."""
    kept = {
        number: _COMMENT.sub("", line).rstrip()
        for number, line in enumerate(text.splitlines(), 1)
        if not _COMMENT.match(line.lstrip())
    }
    expected = {release: expectations(text, release) for release in RELEASES}
    before = expected[release]
    counts: dict[Fact, dict[str, int]] = {}
    for fact in {*totals, *(fact for each in expected.values() for fact in each)}:
        for name, each in expected.items():
            follows = name == release or (release == MAIN_RELEASE and each[fact] == before[fact])
            counts.setdefault(fact, {})[name] = totals[fact] if follows else each[fact]
    out: list[str] = []
    for number, line in kept.items():
        comments = [
            fact.comment(count, tuple(release for release in RELEASES if by_release[release] == count))
            for fact, by_release in sorted(counts.items(), key=lambda item: item[0])
            for count in sorted({*by_release.values()} - {0})
            if fact.line == number
        ]
        together = "  ".join([line, *comments])
        indent = line[: len(line) - len(line.lstrip())]
        out += [together] if len(together) <= _WIDTH else [line, *(indent + comment for comment in comments)]
    return "\n".join(out) + "\n"
