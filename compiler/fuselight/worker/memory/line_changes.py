"""What compiling does with the memory of lines, as far as graphs and wrappers prove it.

Invariant: a line has a change only if a graph or a wrapper shows it, and never because sizes differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from fuselight.adapters.virtual_gpu.replayed import PassedValues, ReplayedGraph
from fuselight.shared.report import ChangedMemory, Location, MemoryChange
from fuselight.worker.memory.peaks import line_of_trace


def changed_lines(
    graphs: Sequence[ReplayedGraph],
    passed: Sequence[PassedValues],
    roots: tuple[str, ...],
    allocating: Collection[tuple[str, int]],
) -> Iterator[ChangedMemory]:
    """Yield each change once; `allocating`: path and number of the lines that have made a tensor when the code ran.

    `passed`: of the graphs that were captured; what the last frame gives is the result of the call.
    """
    last = passed[-1].frame if passed else None
    texts = {
        MemoryChange.FUSED: [trace for graph in graphs for trace in graph.computed],
        MemoryChange.RECOMPUTED: [trace for graph in graphs for trace in graph.recomputed],
        MemoryChange.REUSED: [trace for graph in graphs for trace in graph.reused],
        MemoryChange.DONATED: [trace for graph in graphs for trace in graph.donated],
        MemoryChange.PADDED: [trace for graph in graphs for trace in graph.padded],
        MemoryChange.PASSED: [trace for frame, traces in passed if frame != last for trace in traces],
    }
    for change, traces in texts.items():
        lines: dict[tuple[str, int], Location] = {}
        for trace in dict.fromkeys(traces):
            line = line_of_trace(roots, trace)
            if line is not None:
                lines.setdefault((line.path, line.line), line)
        for key, line in sorted(lines.items(), key=lambda item: item[0]):
            if change is not MemoryChange.FUSED or key not in allocating:
                yield ChangedMemory(line, change)
