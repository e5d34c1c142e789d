"""Why two lines share a kernel, or why they do not, in plain words.

Invariant: a reason is Inductor's own, given for the very pair; where it gave none, the answer is that it did not
consider the pair, never a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.kernels.shares import place_of, shares

_WORDS = {
    "numel/rnumel mismatch (reduce)": "both reduce, but over tensors of different sizes",
    "numel/rnumel mismatch (non-reduce)": "they run over different numbers of elements",
    "numel/rnumel mismatch prologue": "they run over different numbers of elements",
    "nodes numel": "they run over different numbers of elements",
    "tiling mismatch": "they go through memory in different orders",
    "invalid tiling for reduction": "the reduction cannot be tiled as the other one goes through memory",
    "memory deps did not match": "the second reads what the first writes in another order or with other indices",
    "intermediate nodes between": "something that runs between them needs the first and is needed by the second",
    "node1 must go before node2": "the first must be done as a whole before the second begins",
    "node2 is extern or nop": "the second is a library's kernel, into which nothing can be fused",
    "node1 is extern": "the first is a library's kernel, into which nothing can be fused",
    "node1 is nop": "the first computes nothing",
    "template epilogue not satisfied": "the matrix multiplication is a library's, or takes no such epilogue",
    "node1's triton kernel doesn't support epilogue": "the first one's Triton kernel takes no epilogue",
    "prologue fusion will not": "to fuse it into the matrix multiplication's input would read no less memory",
    "template prologue": "the matrix multiplication's template cannot take this as its input",
    "prologue fusion": "the matrix multiplication's template cannot take this as its input",
    "device mismatch": "they run on different devices",
    "fusion for buffer explicit disabled": "fusion is turned off for this tensor",
    "register spilling": "the fused kernel would need more registers than there are",
    "Split scan cannot fuse": "a scan over a long dimension runs in parts and cannot be fused with a reduction",
    "candidate ": "one of them is a foreach operator, which fuses with its like only",
    "foreach do not have same length": "their lists of tensors have different lengths",
    "node1 and node2 uses different buf layouts": "their tensors are laid out differently",
    "grouped node": "it was grouped with others, and stays with those alone",
    "no shared data": "they share no data: fusing them would save no memory traffic",
    "not enough shared": "they share too little data: fusing them would save next to no memory traffic",
    "exceeds max fusion": "the fused kernel would hold more operators than Inductor allows",
    "fusion will increase peak memory": "fused, they would need more memory at once",
    "will create cycle": "fused, they would wait for each other",
}
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
