"""Why two lines share a kernel, or why they do not, in plain words.

Invariant: a reason is Inductor's own, given for the very pair; where it gave none, the answer is that it did not
consider the pair, never a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight.shared.report import Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.kernels.shares import place_of, shares

_WORDS = read_table(dict[str, str], __file__)
"""Torch's words, by how they begin, in ours."""


@dataclass(frozen=True)
class Fusion:
    """What became of a pair of lines."""

    verdict: str
    """`fused`, `refused`, `apart` (in different graphs), `not considered` or `no kernel`."""
    kernels: tuple[str, ...] = ()
    """Those that both lines are in."""
    reasons: tuple[tuple[str, str, int], ...] = ()
    """Of a refusal: in plain words, in torch's, and how often; most first."""
    without: tuple[SourceLine, ...] = ()
    """Of `no kernel`: which of the two lines have a part in none."""


def why(report: Report, first: SourceLine, second: SourceLine) -> Fusion:
    """Whether two lines are fused, and why not."""
    shared: dict[str, None] = {}
    graphs: dict[SourceLine, set[int]] = {first: set(), second: set()}
    for index, graph in enumerate(report.generated):
        for kernel in graph.kernels:
            places = shares(kernel, report.roots)
            for place in {first, second} & places.keys():
                graphs[place].add(index)
            if first in places and second in places:
                shared.setdefault(kernel.name)
    reasons = _reasons(report, {first, second})
    if shared:
        return Fusion("fused", kernels=tuple(shared))
    if reasons:
        words = tuple((plain(reason), reason, count) for reason, count in reasons.most_common())
        return Fusion("refused", reasons=words)
    if without := tuple(place for place, graph in graphs.items() if not graph):
        return Fusion("no kernel", without=without)
    return Fusion("not considered" if graphs[first] & graphs[second] else "apart")


def _reasons(report: Report, pair: set[SourceLine]) -> Counter[str]:
    """What Inductor said of the pair, and how often."""
    counts: Counter[str] = Counter()
    for graph in report.generated:
        for refusal in graph.refusals:
            if {place_of(refusal.first, report.roots), place_of(refusal.second, report.roots)} == pair:
                counts[refusal.reason] += refusal.count
    return counts


def plain(reason: str) -> str:
    """Torch's reason in plain words; its own where it is not known."""
    return next((words for start, words in _WORDS.items() if reason.startswith(start)), reason)


def sentence(
    fusion: Fusion,
    first: SourceLine,
    second: SourceLine,
    *,
    name: Callable[[SourceLine], str] | None = None,
) -> str:
    """The answer in a sentence or two. `name`: what a line is called where a number is not enough, as in notebooks."""
    reasons = "; ".join(dict.fromkeys(words for words, _, _ in fusion.reasons))
    answer = {
        "fused": f"are fused in {', '.join(fusion.kernels)}.",
        "refused": f"are not fused: {reasons}.",
        "apart": "are in different graphs: what lies between them, as a graph break, keeps them apart.",
        "no kernel": f"cannot be compared: {_named(fusion.without, name)} no part in any kernel.",
        "not considered": "are not fused, and Inductor did not consider it: they share no data in one step.",
    }
    pair = (
        f"Lines {first.line} and {second.line}"
        if name is None
        else f"{name(first)} and {name(second)}".capitalize()
    )
    return f"{pair} {answer[fusion.verdict]}"


def _named(places: tuple[SourceLine, ...], name: Callable[[SourceLine], str] | None) -> str:
    """`line 3 has`, `lines 3 and 5 have`, `cell 2, line 3 has`."""
    verb = "has" if len(places) == 1 else "have"
    if name is not None:
        return f"{' and '.join(map(name, places))} {verb}"
    return f"line{'' if len(places) == 1 else 's'} {' and '.join(str(place.line) for place in places)} {verb}"
