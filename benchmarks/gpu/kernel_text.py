"""Reads the kernels out of Inductor's wrappers and compares two sets of them, as text.

Invariant: standard library only. Two kernels are identical if their sources are, except for the number at the end of
a name, the repeated name, hashes, file paths and comments. Library calls are compared as a multiset of operators.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_KERNEL = re.compile(
    r"^(?P<name>\w+) = async_compile\.triton\(\s*'(?P<given>\w+)',\s*'''(?P<text>.*?)'''",
    re.MULTILINE | re.DOTALL,
)
_EXTERN = re.compile(
    r"(?<![\w.])(?P<call>extern_kernels\.\w+|torch\.ops\.\w+\.\w+(?:\.\w+)?|aten\.\w+(?:\.\w+)?|inductor_ops\.\w+"
    r"|_quantized\.\w+|fuselight_fidelity\.\w+)\("
)
_NOISE = (
    (re.compile(r"'backend_hash': '[0-9A-Fa-f]*'"), "'backend_hash': ''"),
    (re.compile(r"'kernel_num_gb': [\d.e+-]+,?\s*"), ""),
    (re.compile(r"[ \t]*#[^'\"\n]*$", re.MULTILINE), ""),
    (re.compile(r"(?<=['\"])/[^'\"]*\.py(?=['\"])"), "FILE"),
)


@dataclass(frozen=True)
class GraphText:
    """The contents of a wrapper: normalized sources of its kernels, and the count of each library operator."""

    phase: str
    kernels: tuple[str, ...]
    externs: Mapping[str, int]


@dataclass
class Comparison:
    """Of the kernels of one phase of one case."""

    identical: int = 0
    total: int = 0
    """Kernels of the side that has more of them: a kernel without a partner is a difference."""
    externs_identical: int = 0
    externs_total: int = 0
    differences: list[str] = field(default_factory=list)
    """A unified diff for each pair, the real kernel first; an unmatched kernel is added or removed entirely."""
    extern_differences: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Operators called a different number of times: by the real wrapper, by the virtual one."""

    @property
    def unmatched(self) -> int:
        """Kernels that are not identical."""
        return self.total - self.identical

    def add(self, other: Comparison) -> None:
        """Count another comparison in."""
        self.identical += other.identical
        self.total += other.total
        self.externs_identical += other.externs_identical
        self.externs_total += other.externs_total


def read(phase: str, wrapper: str) -> GraphText:
    """The kernels and library calls of a wrapper of Inductor's."""
    kernels = tuple(normalized(match["text"], match["given"]) for match in _KERNEL.finditer(wrapper))
    body = _KERNEL.sub("", wrapper)
    start = body.find("def call(")
    lines = [line for line in body[start:].splitlines() if not line.lstrip().startswith("#")]
    calls = Counter(match["call"] for line in lines for match in _EXTERN.finditer(line))
    return GraphText(phase, kernels, dict(calls))


def normalized(source: str, name: str) -> str:
    """A kernel's source without what differs between two runs of the same compiler."""
    text = source.replace(name, re.sub(r"_\d+$", "", name))
    for pattern, put in _NOISE:
        text = pattern.sub(put, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if line.strip())


def compare(real: Sequence[GraphText], virtual: Sequence[GraphText]) -> dict[str, Comparison]:
    """Both sides' kernels, phase by phase."""
    phases = list(dict.fromkeys(graph.phase for graph in (*real, *virtual)))
    return {phase: _compared(_of(real, phase), _of(virtual, phase)) for phase in phases}


def _of(graphs: Sequence[GraphText], phase: str) -> list[GraphText]:
    return [graph for graph in graphs if graph.phase == phase]


def _compared(real: Sequence[GraphText], virtual: Sequence[GraphText]) -> Comparison:
    ours = Counter(kernel for graph in virtual for kernel in graph.kernels)
    theirs = Counter(kernel for graph in real for kernel in graph.kernels)
    same = ours & theirs
    comparison = Comparison(same.total(), max(ours.total(), theirs.total()))
    comparison.differences = _pairs(list((theirs - same).elements()), list((ours - same).elements()))
    calls, real_calls = _calls(virtual), _calls(real)
    comparison.externs_identical = (calls & real_calls).total()
    comparison.externs_total = max(calls.total(), real_calls.total())
    for name in sorted(calls | real_calls):
        if calls[name] != real_calls[name]:
            comparison.extern_differences[name] = (real_calls[name], calls[name])
    return comparison


def _calls(graphs: Sequence[GraphText]) -> Counter[str]:
    total: Counter[str] = Counter()
    for graph in graphs:
        total.update(graph.externs)
    return total


def _pairs(real: list[str], virtual: list[str]) -> list[str]:
    """Diffs of the kernels that are not identical, each with the most alike of the other side."""
    out = []
    for theirs in real:
        nearest = max(
            virtual,
            key=lambda ours: difflib.SequenceMatcher(None, _named(theirs), _named(ours)).ratio(),
            default=None,
        )
        if nearest is not None:
            virtual.remove(nearest)
        out.append(_diff(theirs, nearest or ""))
    return out + [_diff("", ours) for ours in virtual]


def _named(kernel: str) -> list[str]:
    return [
        line for line in kernel.splitlines() if line.startswith(("def ", "    triton_meta"))
    ] + kernel.splitlines()


def _diff(real: str, virtual: str) -> str:
    return "\n".join(
        difflib.unified_diff(real.splitlines(), virtual.splitlines(), "real", "virtual", lineterm="", n=1)
    )
