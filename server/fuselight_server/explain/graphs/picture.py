"""Draws a report as boxes and arrows: one box for each compile, each break and each frame that runs in eager mode.

The arrows follow execution as far as the report describes it. A break leads to the part of the function after it (by
its line) and to the functions that the broken line calls (by the caller's stack of their compiles). A recompilation
follows the most similar cache entry. Invariant: an arrow goes from the earlier box to the later one, and a box with no
known predecessor hangs on the target.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fuselight.shared.report import (
    Break,
    Compile,
    Frame,
    GeneratedGraph,
    Graph,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    OwnKernel,
    Recompile,
    Report,
)
from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_count, format_estimate, format_place, format_target
from fuselight_server.explain.findings.breaks.break_remedies import break_words
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import worded_recompilations
from fuselight_server.explain.findings.common.text import plain
from fuselight_server.explain.findings.recompilations.recompilation_groups import birthplace
from fuselight_server.explain.findings.recompilations.recompilations import difference_of
from fuselight_server.explain.kernels.own_kernels import figures, launches
from fuselight_server.source.positions import resumption, span


class BoxKind(str, enum.Enum):
    """What a box stands for."""

    TARGET = "target"
    """The target and the calls that were made of it."""
    GRAPH = "graph"
    """One compile of a frame that gave a graph."""
    EMPTY = "empty"
    """One compile of a frame that had nothing to compile."""
    EAGER = "eager"
    """A frame, or one compile of it, that runs in eager mode."""
    BREAK = "break"
    """A graph break."""
    MORE = "more"
    """Boxes that are counted and not drawn."""


class ArrowKind(str, enum.Enum):
    """How one box leads to another."""

    CALLS = "calls"
    BREAKS = "breaks"
    """The graph ends at the break."""
    GOES_ON = "goes on"
    """Compiled code resumes after the break."""
    AGAIN = "compiled again"
    EAGER = "runs in eager"
    """The frame has no more compiled code and runs in eager mode."""
    CAUSE = "because of"
    """The whole frame runs in eager mode because of the break."""


@dataclass(frozen=True)
class Member:
    """One of the boxes that were folded into one."""

    label: str
    at: Span | None


@dataclass(frozen=True)
class Box:
    """One box."""

    id: str
    kind: BoxKind
    name: str
    """Dynamo's id of the compile, or the code of the break; empty for others."""
    title: str
    """The function, or what broke the graph."""
    facts: tuple[str, ...] = ()
    at: Span | None = None
    """Where it is now; None where that was deleted."""
    frame: str | None = None
    """What boxes of the same frame have in common; None for those that are of none."""
    again: bool = False
    """Whether the frame had been compiled before."""
    owner: str | None = None
    """Of a break: the box that came to it first."""
    equal: tuple[str, ...] = ()
    """The facts in which boxes agree that are folded as equal: no lines, no times, and no cause of a recompilation."""
    members: tuple[Member, ...] = ()
    """What was folded into it; empty for a box that stands for itself."""


@dataclass(frozen=True)
class Arrow:
    """One arrow."""

    start: str
    end: str
    kind: ArrowKind


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


_NAMED_OPERATORS = 3
"""Operators that are named in a box, those that are called most."""
_CALLS = 4
_LONGEST = 120


def target_facts(report: Report) -> tuple[str, ...]:
    """Say how the target was called, and how that failed if it did."""
    calls = report.inputs.calls if report.inputs is not None else ()
    facts = [_short(call.text) for call in calls[:_CALLS]]
    if len(calls) > _CALLS:
        facts.append(f"and {format_count(len(calls) - _CALLS, 'call')} more")
    facts += [f"failed: {_short(failure.message)}" for failure in report.failures[:1]]
    return tuple(facts)


def compile_facts(
    compilation: Compile,
    generated: Sequence[GeneratedGraph],
    suffix: str,
    own: Sequence[OwnKernel] = (),
) -> list[str]:
    """Say what is in a compile: operators, the user's own Triton kernels among `own`, guards, kernels."""
    facts = []
    if compilation.outcome is Outcome.FAILED:
        facts.append("the compiler failed")
    elif compilation.outcome is Outcome.EMPTY or (
        compilation.graph is None and compilation.outcome is Outcome.COMPILED
    ):
        facts.append("no operators to compile")
    if compilation.graph is not None:
        facts.append(_operators(compilation.graph.operators, compilation.graph.targets))
        facts += _own_kernels(compilation.graph, own)
    count = compilation.guard_count if compilation.guard_count is not None else len(compilation.guards)
    if count:
        checked = "" if compilation.guard_us is None else f", checked in {compilation.guard_us:.1f} µs"
        facts.append(format_count(count, "guard") + checked)
    return facts + [_kernels(graph) + suffix for graph in generated]


def _own_kernels(graph: Graph, own: Sequence[OwnKernel]) -> list[str]:
    """Name the user's own Triton kernels that a graph launches, by the lines of their launches."""
    names = dict.fromkeys(
        f"Triton kernel {kernel.name} (line {kernel.location.line}): {', '.join(figures(kernel))}"
        for kernel in own
        if launches(graph, kernel)
    )
    return [_short(text) for text in names]


def _operators(count: int, targets: Sequence[str]) -> str:
    most = Counter(name.rpartition(".")[2] for name in targets).most_common(_NAMED_OPERATORS + 1)
    if not most:
        return format_count(count, "operator")
    names = [f"{name} x {times}" if times > 1 else name for name, times in most[:_NAMED_OPERATORS]]
    return f"{format_count(count, 'operator')}: {', '.join(names)}{', ...' if len(most) > _NAMED_OPERATORS else ''}"


def _kernels(graph: GeneratedGraph) -> str:
    if graph.failure is not None:
        return f"{graph.phase.value}: no kernels: {_short(graph.failure)}"
    us = sum(kernel.estimate_us or 0.0 for kernel in graph.kernels)
    return f"{graph.phase.value}: {format_count(len(graph.kernels), 'kernel')}" + (
        f", {format_estimate(us)}" if us else ""
    )


def eager_words(left: NotCompiled) -> str:
    """Return the reason why a frame runs in eager mode."""
    kind = left.kind.value.replace("_", " ")
    return f"{kind}: {_short(left.reason)}" if left.reason else kind


def kernels_by_compile(report: Report, kernels: Report | None) -> dict[str, list[GeneratedGraph]]:
    """Return what was generated, by compile id of `report`, where both runs captured the same graph under that id."""
    graphs: dict[str, list[GeneratedGraph]] = defaultdict(list)
    if kernels is None:
        return graphs
    ours, theirs = _captured(report), _captured(kernels)
    for graph in kernels.generated:
        if graph.compile_id in ours and ours[graph.compile_id] == theirs.get(graph.compile_id):
            graphs[graph.compile_id].append(graph)
    return graphs


def _captured(report: Report) -> dict[str, object]:
    """Return of each compile what tells one graph from another: function, part of it, operators."""
    compiles: dict[str, object] = {}
    for record in report.compiles:
        if record.graph is not None and record.frame < len(report.frames):
            frame = report.frames[record.frame]
            compiles[record.id] = (
                frame.function,
                frame.resumes_at,
                record.graph.operators,
                record.graph.targets,
            )
    return compiles


def _short(text: str) -> str:
    line = plain(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


START = "target"
_KINDS = {
    Outcome.COMPILED: BoxKind.GRAPH,
    Outcome.EMPTY: BoxKind.EMPTY,
    Outcome.SKIPPED: BoxKind.EAGER,
    Outcome.FAILED: BoxKind.EAGER,
}
_LIMITS = frozenset({NotCompiledKind.RECOMPILE_LIMIT, NotCompiledKind.ACCUMULATED_LIMIT})
_NO_ID = "FL107"


def picture(
    report: Report,
    *,
    kernels: Report | None = None,
    read_line: Callable[[str, int], str | None] | None = None,
    now: Callable[[Location], Span | None] | None = None,
    text_now: Callable[[str, str], str] | None = None,
    suffix: str = "",
) -> Picture:
    """Make the picture of a report.

    `kernels` is the kernels-tier report of the same target. Its facts about a graph are used where both reports
    captured the same graph, and end with `suffix`. `now` maps a location of the report to its current span (None:
    deleted); `text_now` returns a text about a file with the lines that it names where they are now.
    """
    context = Context.of(report, read_line=read_line)
    text_now = text_now or (lambda _path, text: text)
    by_compile = kernels_by_compile(report, kernels)
    return _PictureMaker(report, context, by_compile, now or span, text_now, suffix).draw()


@dataclass
class _PictureMaker:
    """The boxes that have been made, by what later ones are found by."""

    report: Report
    context: Context
    kernels: dict[str, list[GeneratedGraph]]
    now: Callable[[Location], Span | None]
    text_now: Callable[[str, str], str]
    suffix: str
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: dict[Arrow, None] = field(default_factory=dict)
    by_compile: dict[str, str] = field(default_factory=dict)
    """Box of a compile id."""
    by_frame: dict[int, str] = field(default_factory=dict)
    """The newest box of a frame."""
    breaks: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Box of a break, by its frame, place and code."""
    roots: dict[tuple[str, int], str] = field(default_factory=dict)
    """The newest break whose root frame broke on this line, frames that were skipped for it aside."""
    broken_lines: list[tuple[Location, Location, str]] = field(default_factory=list)
    """Of each break: the `def` line of its root frame, the line that broke in it, its box."""
    eager: list[tuple[Location, str]] = field(default_factory=list)
    """Frames that run in eager: `def` line and box."""

    def draw(self) -> Picture:
        report = self.report
        facts = target_facts(report)
        at = self.now(self.context.target_location())
        self.add_box(Box(START, BoxKind.TARGET, "", format_target(report.target.name), facts, at))
        breaks: dict[str, list[Break]] = defaultdict(list)
        for broke in report.breaks:
            breaks[broke.compile_id].append(broke)
        again = {
            recompilation.compile_id: recompilation
            for recompilation in worded_recompilations(self.context)
            if recompilation.compile_id is not None
        }
        reasons = list(report.not_compiled)
        for record in report.compiles:
            if record.frame < len(report.frames):
                self.compile(record, again.get(record.id), breaks.pop(record.id, []), reasons)
        for rest in breaks.values():
            for broke in rest:
                self.broken(broke, START, None)
        for left in reasons:
            self.left(left)
        return Picture(tuple(self.boxes.values()), tuple(self.arrows))

    def add_box(self, box: Box) -> str:
        self.boxes[box.id] = box
        return box.id

    def arrow(self, start: str, end: str, kind: ArrowKind) -> None:
        if start != end:
            self.arrows[Arrow(start, end, kind)] = None

    def compile(
        self, compilation: Compile, again: Recompile | None, breaks: list[Break], reasons: list[NotCompiled]
    ) -> None:
        frame = self.report.frames[compilation.frame]
        bare = compilation.outcome is Outcome.COMPILED and compilation.graph is None
        kind = BoxKind.EMPTY if bare else _KINDS[compilation.outcome]
        identity = f"compile/{compilation.id}"
        while identity in self.boxes:  # a log of several processes may have an id twice
            identity += "'"
        facts = [*self.resumed(frame)]
        if again is not None:
            difference = difference_of(self.context, again, birthplace(self.context, again)[1])
            facts.append(f"since {self.text_now(frame.location.path, difference)}")
        reason = self.reason_of(compilation, frame, reasons) if kind is BoxKind.EAGER else []
        generated = self.kernels.get(compilation.id, ())
        own = self.context.report.own_kernels
        facts += [*reason, *compile_facts(compilation, generated, self.suffix, own)]
        equal = (*reason, *compile_facts(replace(compilation, guard_us=None), generated, self.suffix, own))
        start, how = self.way_to(compilation, frame, again)
        self.add_box(
            Box(
                identity,
                kind,
                compilation.id,
                plain(frame.function),
                tuple(facts),
                self.now(resumption(frame)),
                frame=f"frame/{compilation.frame}",
                again=again is not None,
                equal=equal,
            )
        )
        self.arrow(start, identity, how)
        self.by_compile.setdefault(compilation.id, identity)
        self.by_frame[compilation.frame] = identity
        if kind is BoxKind.EAGER:
            self.eager.append((frame.location, identity))
        for broke in breaks:
            self.broken(broke, identity, compilation.frame)

    def resumed(self, frame: Frame) -> list[str]:
        """Say which part of a function it is, with the line where that is now."""
        if frame.resumes_at is None:
            return []
        there = self.now(resumption(frame))
        return ["the part after a graph break" if there is None else f"from line {there.line} on"]

    def reason_of(self, compilation: Compile, frame: Frame, reasons: list[NotCompiled]) -> list[str]:
        """Return why it runs in eager mode, and remove that reason from those with a box of their own."""
        uncompiled_code = next(
            (
                left
                for left in reasons
                if left.kind in {NotCompiledKind.SKIPPED, NotCompiledKind.COMPILER_ERROR}
                and left.location.path == frame.location.path
                and left.location.line == frame.location.line
                and left.call in {None, compilation.call}
            ),
            None,
        )
        if uncompiled_code is None:
            return []
        reasons.remove(uncompiled_code)
        return [eager_words(uncompiled_code)]

    def way_to(self, compilation: Compile, frame: Frame, again: Recompile | None) -> tuple[str, ArrowKind]:
        """Return the box from which this compile was reached."""
        if again is not None:
            nearest = self.by_compile.get(again.entries[0].compile_id) if again.entries else None
            before = nearest or self.by_frame.get(compilation.frame)
            if before is not None:
                return before, ArrowKind.AGAIN
        if frame.resumes_at is not None:
            broke = self.break_before(frame.location, frame.resumes_at)
            if broke is not None:
                return broke, ArrowKind.GOES_ON
        return self.caller_of(compilation.caller), ArrowKind.CALLS

    def break_before(self, function: Location, line: int) -> str | None:
        """Return the newest break in a function that ends on the line where a part of it takes over."""
        for start, root, box in reversed(self.broken_lines):
            if _same_line(start, function) and root.line <= line <= (root.end_line or root.line):
                return box
        return None

    def caller_of(self, caller: tuple[Location, ...]) -> str:
        """Return what the innermost known frame of a stack belongs to: a broken line, or a frame in eager."""
        for at in reversed(caller):
            broke = self.roots.get((at.path, at.line))
            if broke is not None:
                return broke
            around = [
                (start.line, box)
                for start, box in self.eager
                if start.path == at.path and start.line <= at.line and _named(self.boxes[box], at)
            ]
            if around:
                return max(around, key=lambda item: item[0])[1]
        return START

    def broken(self, graph_break: Break, start: str, frame: int | None) -> None:
        """Let a box lead to the break that ended it; the same break of the same frame is one box."""
        inner = graph_break.stack[-1] if graph_break.stack else None
        code = next((gb_id for gb_id in graph_break.ids[:1] if gb_id), _NO_ID)
        key = (frame, inner and (inner.path, inner.line), code, graph_break.frame_skipped)
        box = self.breaks.get(key)
        if box is None:
            box = self.breaks[key] = self.break_box(graph_break, code, start)
        kind = ArrowKind.CAUSE if graph_break.frame_skipped else ArrowKind.BREAKS
        self.arrow(start, box, kind if start != START else ArrowKind.CALLS)
        if graph_break.stack and not graph_break.frame_skipped:
            root = graph_break.stack[0]
            self.roots[root.path, root.line] = box
            if frame is not None:
                self.broken_lines.append((self.report.frames[frame].location, root, box))

    def break_box(self, graph_break: Break, code: str, owner: str) -> str:
        home = self.context.innermost_user_frame(graph_break.stack, graph_break.above) or (
            graph_break.stack[-1] if graph_break.stack else None
        )
        what = break_words(
            self.context, graph_break, graph_break.stack[-1] if graph_break.stack else None
        ).title
        facts = []
        root = self.now(graph_break.stack[0]) if len(graph_break.stack) > 1 else None
        if root is not None:
            in_file = home is not None and root.path == home.path
            facts.append(
                f"reached from {f'line {root.line}' if in_file else format_place(root.path, root.line)}"
            )
        if graph_break.operators:
            facts.append(f"{format_count(graph_break.operators, 'operator')} traced before it")
        at = self.now(home) if home is not None else None
        what = self.text_now(home.path, what) if home is not None else what
        return self.add_box(
            Box(f"break/{len(self.breaks)}", BoxKind.BREAK, code, what, tuple(facts), at, owner=owner)
        )

    def left(self, uncompiled_code: NotCompiled) -> None:
        """Add the box of a frame that runs in eager mode and has no compile of its own."""
        identity, title = f"eager/{len(self.eager)}", plain(uncompiled_code.function)
        at, facts = self.now(uncompiled_code.location), (eager_words(uncompiled_code),)
        entry = self.last_entry(uncompiled_code) if uncompiled_code.kind in _LIMITS else None
        frame = self.boxes[entry].frame if entry is not None else None
        self.add_box(Box(identity, BoxKind.EAGER, "", title, facts, at, frame=frame))
        if entry is not None:
            self.arrow(entry, identity, ArrowKind.EAGER)
        else:
            self.arrow(self.caller_of(uncompiled_code.caller), identity, ArrowKind.CALLS)
        self.eager.append((uncompiled_code.location, identity))

    def last_entry(self, uncompiled_code: NotCompiled) -> str | None:
        """Return the box of the cache entry that came nearest when a limit stopped one more compile."""
        for stopped in reversed(self.report.recompiles):
            if (
                stopped.compile_id is None
                and stopped.entries
                and _same_line(stopped.location, uncompiled_code.location)
            ):
                return self.by_compile.get(stopped.entries[0].compile_id)
        return None


def _same_line(left: Location, right: Location) -> bool:
    return (left.path, left.line) == (right.path, right.line)


def _named(box: Box, at: Location) -> bool:
    """Whether a frame of a stack can be the box's function: the stack has the name without its class."""
    return at.function is None or box.title.rpartition(".")[2] == at.function.rpartition(".")[2]
