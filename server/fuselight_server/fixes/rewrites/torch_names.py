"""Names of torch that fixes write and that older releases lack, and which of them a new text needs.

Invariant: the releases are those of `NAMES` alone; a contract test looks each name up in the torch that is installed. A
name that every supported release has (2.6 and newer) is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight.shared.version import release
from fuselight_server.fixes.rewrites.remedy import Remedy
from fuselight_server.fixes.syntax.refusals import RefusedRewrite


@dataclass(frozen=True)
class TorchName:
    """A name of torch, or an argument of a function, that a fix writes."""

    name: str
    """As a reader would search for it; an argument in parentheses."""
    since: tuple[int, int]
    """The first release that is known to have it."""
    written: re.Pattern[str]
    """How it stands in a text."""


def _attribute(name: str, since: tuple[int, int]) -> TorchName:
    """An attribute of torch, by whatever name the text imports torch."""
    return TorchName(name, since, re.compile(rf"{re.escape(name.removeprefix('torch'))}\b"))


NAMES = (
    TorchName("torch.library.custom_op(tags=...)", (2, 8), re.compile(r"\.custom_op\([^\n]*\btags=")),
    _attribute("torch._higher_order_ops.print", (2, 11)),
    _attribute("torch._dynamo.config.allow_unspec_int_on_nn_module", (2, 7)),
    _attribute("torch._dynamo.config.ignore_logging_functions", (2, 11)),
    _attribute("torch._dynamo.config.trace_autograd_ops", (2, 11)),
    _attribute("torch._functorch.config.autograd_cache_allow_custom_autograd_functions", (2, 11)),
    _attribute("torch._inductor.config.unsafe_marked_cacheable_functions", (2, 11)),
)
"""Without the arguments of `torch.compile` for dynamic sizes: with an older torch, another fix marks the sizes."""


def supported(remedy: Remedy, report: Report, read: Callable[[str], str | None]) -> Remedy | RefusedRewrite:
    """The remedy, or a refusal that names what the torch of the run lacks."""
    version = report.versions.torch or ""
    for name in NAMES:
        if release(version) < name.since and _is_new(name, remedy, read):
            needed = ".".join(map(str, name.since))
            reason = f"`{name.name}` needs torch {needed} or newer, and the run had {version or 'no known version'}"
            return RefusedRewrite(remedy.kind, remedy.title, reason)
    return remedy


def _is_new(name: TorchName, remedy: Remedy, read: Callable[[str], str | None]) -> bool:
    """Whether the remedy writes the name where the text did not have it."""
    return any(
        len(name.written.findall(text)) > len(name.written.findall(read(path) or ""))
        for path, text in remedy.texts.items()
    )
