"""The timeline of a step's memory as a picture: what is allocated, by kind, with the peak marked.

Invariant: a table beside it has the numbers of the peak; kinds differ in their order and label, not by color alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuselight.shared.report import MemoryTimeline
from fuselight_server.base.formatting import format_size
from fuselight_server.explain.memory.words import PHASES, USES
from fuselight_server.explain.pages.parts import html_text

_WIDTH, _HEIGHT = 720, 200
_LEFT, _TOP, _BOTTOM = 70, 14, 22
_COLORS = 10
"""Of `tokens.css`, as `--chart-1`."""


def timeline_picture(timeline: MemoryTimeline, label: str) -> str:
    """A figure with the timeline, its legend, and the names of the step's parts."""
    totals = [sum(sizes) for sizes in zip(*(curve.bytes for curve in timeline.curves), strict=True)]
    largest = max(totals, default=0)
    if not largest:
        return ""
    areas, below = [], [0] * len(totals)
    for index, curve in enumerate(timeline.curves):
        above = [low + size for low, size in zip(below, curve.bytes, strict=True)]
        points = [*_steps(above, largest), *reversed(_steps(below, largest))]
        shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        title = html_text(f"{USES[curve.use]}: {format_size(max(curve.bytes))} at most")
        areas.append(f'<polygon fill="{_color(index)}" points="{shape}"><title>{title}</title></polygon>')
        below = above
    legend = "".join(
        f'<li><svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" fill="{_color(index)}"/>'
        f"</svg> {html_text(USES[curve.use])}</li>"
        for index, curve in enumerate(timeline.curves)
    )
    peak = _x(timeline.peak + 0.5, len(totals))
    mark = (
        f'<line x1="{peak:.1f}" x2="{peak:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="currentColor" '
        f'stroke-dasharray="3 3"/><text x="{peak:.1f}" y="{_TOP - 3}" text-anchor="middle" fill="currentColor">'
        "peak</text>"
    )
    return (
        f'<figure><figcaption>{html_text(label)}</figcaption><svg role="img" aria-label="{html_text(label)}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-size="11">{_axis(largest)}{"".join(areas)}{mark}'
        f'{_phases(timeline)}</svg><ul class="legend">{legend}</ul></figure>'
    )


def _x(point: float, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT) * point / count


def _y(size: float, largest: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * size / largest


def _steps(sizes: Sequence[int], largest: int) -> list[tuple[float, float]]:
    """Each point as a horizontal line: what is allocated does not change between operators."""
    return [
        (_x(index + side, len(sizes)), _y(size, largest))
        for index, size in enumerate(sizes)
        for side in (0, 1)
    ]


def _color(index: int) -> str:
    return f"var(--chart-{index % _COLORS + 1})"


def _axis(largest: int) -> str:
    return "".join(
        f'<text x="{_LEFT - 6}" y="{_y(part * largest, largest) + 4:.1f}" text-anchor="end" fill="currentColor">'
        f"{html_text(format_size(part * largest))}</text>"
        for part in (0.0, 0.5, 1.0)
    )


def _phases(timeline: MemoryTimeline) -> str:
    count, parts = len(timeline.phases), []
    for phase in dict.fromkeys(timeline.phases):
        first = timeline.phases.index(phase)
        last = count - 1 - timeline.phases[::-1].index(phase)
        middle = (_x(first, count) + _x(last + 1, count)) / 2
        text = html_text(PHASES[phase])
        parts.append(
            f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle" fill="currentColor">{text}</text>'
        )
    return "".join(parts)
