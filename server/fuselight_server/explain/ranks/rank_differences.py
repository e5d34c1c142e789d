"""Where the ranks of a world differ: other collectives, for which ranks wait for ever, and other compiles.

Invariant: a difference is of ranks that ran, at the first place where they differ; what follows from it is not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.report import (
    Collective,
    CollectiveMismatch,
    Compile,
    EqualRanks,
    Graph,
    GuardCause,
    Location,
    Outcome,
    Recompile,
    World,
    innermost_user_frame,
    is_user_file,
)
from fuselight.shared.world_plan import without_addresses
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.explain.ranks.extra_calls import extra_call
from fuselight_server.explain.ranks.mode_differences import mode_differences, mode_lines

_MUST_AGREE = (
    "Ranks of a process group must call the same collectives in the same order: the others wait until the job's "
    "timeout, or get wrong results."
)
_OWN_CODE = (
    "Each of these ranks compiles code of its own: their compile times differ, and the ranks that are ready wait in "
    "the next collective until the last one is."
)
_OTHER_SIZES = "The sizes of the graph's inputs differ, so that each of these ranks compiles code of its own."
_COLLECTIVE = "c10d"
"""In the names of operators that are collectives."""


@dataclass(frozen=True)
class WorldDifference:
    """A place where ranks differ."""

    code: str
    """Of its finding."""
    title: str
    text: str
    location: Location | None
    related: tuple[tuple[Location, str], ...] = ()
    is_of_collectives: bool = False
    """Whether a graph differs in its collectives."""
    cause: GuardCause | None = None
    """Of a recompilation: what changed; None: it is not known."""
    hint: str = ""
    """What to do, if it is not what its code says."""

    @property
    def lines(self) -> set[tuple[str, int]]:
        """Its lines, also those of the other ranks."""
        places = (self.location, *(place for place, _ in self.related))
        return {(place.path, place.line) for place in places if place is not None}


def world_differences(world: World, roots: Sequence[str]) -> tuple[WorldDifference, ...]:
    """All of them: collectives first. Graphs that differ in these collectives are no difference of their own."""
    collectives = (*_collective_differences(world, roots), *_blocked_receive(world, roots))
    lines = {line for difference in collectives for line in difference.lines}
    compiles = (
        difference
        for difference in _compile_differences(world, roots)
        if not (difference.is_of_collectives and difference.lines & lines)
    )
    return (*collectives, *compiles)


def _collective_differences(world: World, roots: Sequence[str]) -> Iterator[WorldDifference]:
    """The mismatches of collectives; those of parallel process groups on the same lines are one."""
    seen: set[tuple[object, ...]] = set()
    for mismatch in world.mismatches:
        lines = tuple(call and innermost_user_frame(call.stack, roots) for call in mismatch.calls)
        if lines not in seen:
            seen.add(lines)
            yield _of_mismatch(world, mismatch, roots)


def _of_mismatch(world: World, mismatch: CollectiveMismatch, roots: Sequence[str]) -> WorldDifference:
    """Say what most ranks call, and what the others do instead."""
    calls = dict(zip(mismatch.ranks, mismatch.calls, strict=True))
    usual = Counter(map(_signature, calls.values())).most_common()
    common = next((key for key, _ in usual if key), ())
    waiting = [rank for rank, call in calls.items() if _signature(call) == common]
    rest = [rank for rank in calls if rank not in waiting]
    shown, other = calls[waiting[0]], calls[rest[0]]
    location = innermost_user_frame(shown.stack, roots) if shown is not None else None
    elsewhere = innermost_user_frame(other.stack, roots) if other is not None else None
    who, others = ranks_in_words(waiting), ranks_in_words(rest)
    waits = f"{who} would wait here: {others} {_instead(shown, other, _verb(rest, 'call'))}"
    related = () if elsewhere is None else ((elsewhere, f"{others}: {_words(other)}"),)
    extra = extra_call(world, mismatch, (waiting[0], rest[0]), roots)
    if extra is None or location is None:
        calling = f"{who[:1].upper()}{who[1:]} {_verb(waiting, 'call')} {_words(shown)} here."
        return WorldDifference("FL912", waits, f"{calling} {_MUST_AGREE}", location or elsewhere, related)
    some, without = (waiting, rest) if extra.rank == waiting[0] else (rest, waiting)
    title = (
        f"{ranks_in_words(some)} {_verb(some, 'call')} {_words(extra.call)} here, and {ranks_in_words(without)} "
        f"{_verb(without, 'do')} not"
    )
    text = (
        f"It meets {_words(extra.met)} of {ranks_in_words(without)}, and each later call meets another one than it "
        f"should, until two do not fit. {_MUST_AGREE}"
    )
    return WorldDifference("FL912", title, text, extra.location, ((location, waits), *related))


def _blocked_receive(world: World, roots: Sequence[str]) -> Iterator[WorldDifference]:
    """The first receive of ranks that wait for each other, with where the others wait.

    Only of ranks whose collectives fit together: else these waits follow from that.
    """
    calls = {item.rank: item.call for item in world.blocked}
    first = next((rank for rank, call in calls.items() if call.kind == "recv"), None)
    if first is None or world.mismatches:
        return
    source = calls[first].peer
    other = calls.get(source) if source is not None else None
    why = (
        "which sends it nothing more" if other is None else f"which would wait in {_call_words(other)} itself"
    )
    title = f"rank {first} would wait here: it receives from rank {source}, {why}"
    places = {rank: innermost_user_frame(call.stack, roots) for rank, call in calls.items()}
    related = tuple(
        (place, f"rank {rank} would wait here, in {_call_words(calls[rank])}")
        for rank, place in places.items()
        if rank != first and place is not None
    )
    text = "A receive ends once the other rank has sent. No rank of these goes on, even if sends never wait."
    yield WorldDifference("FL912", title, text, places[first], related[:_MAX_RELATED], hint=_SEND_FIRST)


_MAX_RELATED = 8
_SEND_FIRST = "Have one of two ranks send before it receives, or use `batch_isend_irecv` for both directions"


def _call_words(call: Collective) -> str:
    """`recv from rank 0`, `barrier`."""
    return f"{call.kind} from rank {call.peer}" if call.kind == "recv" else call.kind


def _signature(call: Collective | None) -> tuple[object, ...]:
    return () if call is None else (call.kind, call.dtype, call.bytes, call.peer, call.reduction)


def _verb(ranks: Sequence[int], verb: str) -> str:
    """`calls` of one rank, `call` of several."""
    return verb if len(ranks) > 1 else {"have": "has", "do": "does"}.get(verb, f"{verb}s")


def _instead(shown: Collective | None, other: Collective | None, calls: str) -> str:
    if other is None:
        return f"{calls} no further collective of this process group"
    if shown is not None and (shown.kind, shown.dtype) == (other.kind, other.dtype):
        if shown.bytes != other.bytes:
            return f"{calls} {other.kind} with {other.bytes:,} bytes instead of {shown.bytes:,}"
        if shown.reduction != other.reduction:
            return f"{calls} {other.kind} with {other.reduction} instead of {shown.reduction}"
        return f"{calls} {other.kind} with root {other.peer} instead of {shown.peer}"
    return f"{calls} {_words(other)} instead"


def _words(call: Collective | None) -> str:
    if call is None:
        return "no collective"
    size = f" of {call.bytes:,} bytes" if call.bytes else ""
    return f"{call.kind}{size}{f' ({call.dtype})' if call.dtype else ''}"


def _compile_differences(world: World, roots: Sequence[str]) -> Iterator[WorldDifference]:
    """For each group of equal ranks but the largest, the first graph, break and recompilation that differ."""
    if len(world.groups) < 2:  # noqa: PLR2004 - all ranks are equal
        return
    usual = max(world.groups, key=lambda group: len(group.ranks))
    seen: set[tuple[str, Location | None]] = set()
    for group in world.groups:
        if group is usual:
            continue
        broken = _break_difference(group, usual, roots)
        recompiled = _recompiled_unequally(group, usual)
        # Graphs that end at a break of some ranks differ, too.
        graphs = _graph_difference(group, usual, roots, recompiled) if broken is None else None
        modes = _mode_differences(group, usual, roots)
        for difference in (*modes, broken, graphs, _recompile_difference(group, usual, roots)):
            if difference is not None and (difference.title, difference.location) not in seen:
                seen.add((difference.title, difference.location))
                yield difference


def _of_compile(
    title: str,
    location: Location | None,
    related: tuple[tuple[Location, str], ...] = (),
    *,
    code: str = "FL911",
    is_of_collectives: bool = False,
    cause: GuardCause | None = None,
) -> WorldDifference:
    return WorldDifference(code, title, _OWN_CODE, location, related, is_of_collectives, cause)


def _graph_difference(
    group: EqualRanks, usual: EqualRanks, roots: Sequence[str], recompiled: Collection[_FunctionKey]
) -> WorldDifference | None:
    """The first compile of which the graph differs, or that some ranks have alone.

    `recompiled`: functions that some ranks compile again, which is a difference of its own.
    """
    of_group, of_usual = _compiles(group), _compiles(usual)
    for key in dict.fromkeys((*of_usual, *of_group)):
        left, right = of_group.get(key), of_usual.get(key)
        if left is None or right is None:
            some, others = (usual, group) if left is None else (group, usual)
            if others.failures:
                return None  # they ended early
            if key[2] and key[:2] in recompiled:
                continue
            again = " once more" if key[2] else ""
            title = _only_some(some, others, "compile", f"`{key[0]}`{again}")
            return _of_compile(title, _users_line(key[1], left or right, roots))
        difference = _of_graphs(_Side(group.ranks, left), _Side(usual.ranks, right), key, roots)
        if difference is not None:
            return difference
    return None


def _only_some(some: EqualRanks, others: EqualRanks, verb: str, what: str) -> str:
    """`rank 1 compiles `step`, and ranks 0 and 2 do not`."""
    first = f"{ranks_in_words(some.ranks)} {_verb(some.ranks, verb)} {what}"
    return f"{first}, and {ranks_in_words(others.ranks)} {_verb(others.ranks, 'do')} not"


_FunctionKey = tuple[str, "Location"]
_CompileKey = tuple[str, "Location", int]


def _users_line(place: Location, compiled: Compile | Recompile | None, roots: Sequence[str]) -> Location:
    """A line of a compiled function; for a function of a library, the user's line that called it."""
    called = None if compiled is None else innermost_user_frame(compiled.caller, roots)
    return place if called is None or is_user_file(place.path, roots) else called


def _compiles(group: EqualRanks) -> dict[_CompileKey, Compile]:
    """Compiles with a graph, by function, line and how often it was compiled before."""
    times: Counter[tuple[str, Location]] = Counter()
    compiles: dict[_CompileKey, Compile] = {}
    for compiled in group.compiles:
        if compiled.outcome is not Outcome.COMPILED or compiled.graph is None:
            continue
        frame = group.frames[compiled.frame]
        key = (frame.function, frame.location)
        compiles[frame.function, frame.location, times[key]] = compiled
        times[key] += 1
    return compiles


@dataclass(frozen=True)
class _Side:
    """The graph of equal ranks, in a comparison."""

    ranks: tuple[int, ...]
    compiled: Compile

    @property
    def graph(self) -> Graph:
        """Of the compile."""
        return self.compiled.graph or Graph(0)

    def operator(self, at: int) -> str:
        """`rank 1 has `sin``."""
        targets = self.graph.targets
        has = f"{ranks_in_words(self.ranks)} {_verb(self.ranks, 'have')}"
        if at >= len(targets):
            return f"{has} no further operator"
        name = targets[at]
        return f"{has} `{name.rpartition('.')[2] if name.startswith('torch._ops.') else name}`"

    def target(self, at: int) -> str:
        """The name of an operator; empty after the last one."""
        return self.graph.targets[at] if at < len(self.graph.targets) else ""

    def line(self, at: int, roots: Sequence[str]) -> Location | None:
        """The user's line of an operator."""
        lines = self.graph.lines
        return innermost_user_frame(lines[at], roots) if at < len(lines) else None


def _of_graphs(left: _Side, right: _Side, key: _CompileKey, roots: Sequence[str]) -> WorldDifference | None:
    if left.graph.targets != right.graph.targets:
        first, second = (
            (left, right) if len(left.graph.targets) >= len(right.graph.targets) else (right, left)
        )
        pairs = enumerate(zip(first.graph.targets, second.graph.targets, strict=False))
        at = next((index for index, pair in pairs if pair[0] != pair[1]), len(second.graph.targets))
        place, further = (
            side.line(at, roots) or _users_line(key[1], side.compiled, roots) for side in (first, second)
        )
        title = f"the graph of `{key[0]}` differs: {first.operator(at)} here, {second.operator(at)}"
        related = () if further == place else ((further, ranks_in_words(second.ranks)),)
        is_of_collectives = any(_COLLECTIVE in side.target(at) for side in (first, second))
        return _of_compile(title, place, related, is_of_collectives=is_of_collectives)
    inputs, others = without_addresses(left.graph.inputs), without_addresses(right.graph.inputs)
    if inputs == others:
        return None
    pairs_of_inputs = zip(inputs, others, strict=False)
    pair = next((both for both in pairs_of_inputs if both[0] != both[1]), None)
    words = (
        f": `{pair[0]}` on {ranks_in_words(left.ranks)}, `{pair[1]}` on {ranks_in_words(right.ranks)}"
        if pair
        else ""
    )
    title = f"inputs of the graph of `{key[0]}` differ{words}"
    return WorldDifference("FL915", title, _OTHER_SIZES, _users_line(key[1], left.compiled, roots))


def _mode_differences(
    group: EqualRanks, usual: EqualRanks, roots: Sequence[str]
) -> Iterator[WorldDifference]:
    """The functions that the ranks compile in other modes, on the line that sets one."""
    for difference in mode_differences(group, usual):
        of_group, of_usual = (
            f"{ranks_in_words(ranks.ranks)} {_verb(ranks.ranks, verb)}"
            for ranks, verb in ((group, "compile"), (usual, "have"))
        )
        title = (
            f"{of_group} `{difference.function}` with {difference.words(0)}; {of_usual} {difference.words(1)}"
        )
        lines = [
            (place, f"{ranks_in_words(ranks.ranks)}: {words}")
            for side, ranks in enumerate((group, usual))
            for place, words in difference.lines(side, roots)
        ]
        called = innermost_user_frame(difference.compiled[0].caller, roots)
        if called is not None:
            lines.append((called, f"{ranks_in_words(group.ranks)}: this call is compiled"))
        place = lines[0][0] if lines else None
        related = tuple((where, words) for where, words in lines if where != place)
        yield WorldDifference("FL918", title, " ".join((*difference.effects(), _OWN_CODE)), place, related)


def _break_difference(group: EqualRanks, usual: EqualRanks, roots: Sequence[str]) -> WorldDifference | None:
    """A graph break of some ranks alone."""
    for some, others in ((group, usual), (usual, group)):
        if others.failures:
            continue
        known = {innermost_user_frame(broken.stack, roots) for broken in others.breaks}
        for broken in some.breaks:
            place = innermost_user_frame(broken.stack, roots)
            if place is not None and place not in known:
                return _of_compile(_only_some(some, others, "have", "a graph break here"), place)
    return None


def _recompiled_unequally(group: EqualRanks, usual: EqualRanks) -> set[_FunctionKey]:
    """The functions that the ranks compile again a different number of times."""
    counts, others = (
        Counter((recompile.function, recompile.location) for recompile in side.recompiles)
        for side in (group, usual)
    )
    return {key for key in {*counts, *others} if counts[key] != others[key]}


def _recompile_difference(
    group: EqualRanks, usual: EqualRanks, roots: Sequence[str]
) -> WorldDifference | None:
    """A recompilation of some ranks alone."""
    for some, others in ((group, usual), (usual, group)):
        if others.failures:
            continue
        known = Counter((recompile.function, recompile.location) for recompile in others.recompiles)
        for recompile in some.recompiles:
            known[recompile.function, recompile.location] -= 1
            if known[recompile.function, recompile.location] < 0:
                failures = [failure for entry in recompile.entries for failure in entry.failures]
                why = f" ({failures[0].difference})" if failures else ""
                return _of_compile(
                    _only_some(some, others, "compile", f"`{recompile.function}` again{why}"),
                    _users_line(recompile.location, recompile, roots),
                    tuple(mode_lines(some, recompile.compile_id, roots)),
                    code="FL913",
                    cause=failures[0].cause if failures else None,
                )
    return None
