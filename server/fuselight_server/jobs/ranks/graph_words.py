"""A difference of graphs in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.graph_difference import GraphChange, GraphDifference
from fuselight_server.jobs.ranks.model import DifferenceKind
from fuselight_server.jobs.ranks.sides import RankSide, others_in_words

GRAPH_KINDS = {
    GraphChange.COLLECTIVE: DifferenceKind.COLLECTIVES,
    GraphChange.OPERATOR: DifferenceKind.GRAPH,
    GraphChange.INPUT: DifferenceKind.SHAPES,
    GraphChange.CONSTANT: DifferenceKind.CONSTANT,
}
"""The worst first."""
_MAX_SHOWN = 4


def graph_words(odd: Sequence[RankSide], changes: Sequence[GraphDifference], reference: RankSide) -> str:
    """The change of each odd side from the reference; all changes are of one kind."""
    return _WORDS[changes[0].change](odd, changes, reference)


def _operators(odd: Sequence[RankSide], changes: Sequence[GraphDifference], reference: RankSide) -> str:
    change, ranks, others = changes[0], ranks_in_words(odd[0].ranks), others_in_words(reference.ranks)
    if change.left is None:
        return f"`{change.right}` is only in the graph of {ranks}"
    if change.right is None:
        verb = "has" if len(reference.ranks) == 1 else "have"
        return f"`{change.left}` is missing in the graph of {ranks} ({others} {verb} it)"
    line = ""
    if change.left_line is not None and change.right_line is not None:
        line = f" on line {change.left_line.line}" if change.left_line.line != change.right_line.line else ""
    return f"the graph of {ranks} has `{change.right}` here, that of {others} `{change.left}`{line}"


def _collectives(odd: Sequence[RankSide], changes: Sequence[GraphDifference], reference: RankSide) -> str:
    change, ranks, others = changes[0], ranks_in_words(odd[0].ranks), others_in_words(reference.ranks)
    verb = "calls" if len(odd[0].ranks) == 1 else "call"
    is_single = len(reference.ranks) == 1
    if change.left is None:
        return f"only {ranks} {verb} the collective `{change.right}` here"
    if change.right is None:
        return f"{ranks} {verb} no `{change.left}` here ({others} {'does' if is_single else 'do'})"
    their_verb = "calls" if is_single else "call"
    return f"{ranks} {verb} the collective `{change.right}` here, where {others} {their_verb} `{change.left}`"


def _constants(odd: Sequence[RankSide], changes: Sequence[GraphDifference], reference: RankSide) -> str:
    return f"a constant of the graph differs in `{changes[0].subject}`: {_values(odd, changes, reference)}"


def _inputs(odd: Sequence[RankSide], changes: Sequence[GraphDifference], reference: RankSide) -> str:
    values = _values(odd, changes, reference)
    return f"the graphs are compiled for other inputs: `{changes[0].subject}` is {values}"


def _values(odd: Sequence[RankSide], changes: Sequence[GraphDifference], reference: RankSide) -> str:
    """`1 on rank 0, 2 on rank 1`."""
    values = [*zip(odd, (change.right for change in changes), strict=True), (reference, changes[0].left)]
    ordered = sorted(values, key=lambda item: item[0].ranks[0])
    shown = [f"{text or 'none'} on {ranks_in_words(side.ranks)}" for side, text in ordered[:_MAX_SHOWN]]
    return ", ".join([*shown, "..."] if len(ordered) > _MAX_SHOWN else shown)


_WORDS: dict[GraphChange, Callable[[Sequence[RankSide], Sequence[GraphDifference], RankSide], str]] = {
    GraphChange.COLLECTIVE: _collectives,
    GraphChange.OPERATOR: _operators,
    GraphChange.INPUT: _inputs,
    GraphChange.CONSTANT: _constants,
}
