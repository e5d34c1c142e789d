"""Ids of graph breaks for logs of releases that print none: torch 2.6 and 2.7.

Invariant: a break has an id only if its text is that of torch's registry, or a text of torch 2.6 with the same meaning.
Any other break keeps torch's text, without an id. The registry is younger than these releases: it has the titles of
torch 2.7, and torch 2.6 prints a sentence of its own in place of a title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fuselight.shared.codec import read_table
from fuselight.shared.torch_texts import Reason, read_reasons

_RAISED = re.compile(r"^(?:\w+\.)*(?:Unsupported|UncapturedHigherOrderOpError|UserError): ")
_SHORT = 1_000

IDS = read_table(dict[str, str], __file__)
"""By title in torch's registry; a title that has several ids is not here."""


@dataclass(frozen=True)
class _EarlyText:
    """A reason as torch 2.6 prints it, and the title and the explanation that later releases have for it."""

    pattern: re.Pattern[str]
    title: str
    explanation: str
    """Of later releases, with the named parts of the pattern."""


_EARLY = tuple(
    _EarlyText(re.compile(pattern), title, explanation)
    for pattern, title, explanation in (
        (
            r"Tensor\.item$",
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.",
        ),
        (
            r"(?:Data-dependent jump|generic_jump TensorVariable\(\))$",
            "Data-dependent branching",
            "Dynamo does not support tracing dynamic control flow.",
        ),
        (
            r"dynamic shape operator: (?P<name>[\w.]+)",
            "Dynamic shape operator",
            "Operator `{name}`'s output shape depends on input Tensor data.",
        ),
        (
            r"data dependent operator: (?P<name>[\w.]+)",
            "Data dependent operator",
            "Operator `{name}` has a non-Tensor output whose value is dependent on the data of Tensor inputs.",
        ),
        (
            r"builtin: (?P<name>[\w.]+) \[",
            "Failed to trace builtin operator",
            "Dynamo does not know how to trace builtin operator `{name}`.",
        ),
        (
            r"Graph break due to unsupported (?:Python )?builtin (?:None\.)?(?P<name>[\w.]+[\w])\. ",
            "Attempted to call function marked as skipped",
            "Dynamo does not know how to trace the builtin `{name}`.",
        ),
        (
            r"Logger not supported for non-export cases",
            "logging.Logger method not supported for non-export cases",
            "logging.Logger methods are not supported for non-export cases.",
        ),
        (
            r"call torch\._dynamo\.disable\(\) wrapped function <function (?P<name>[\w.<>]+) at ",
            "Skip calling `torch.compiler.disable()`d function",
            "Skip calling function `{name}` since it was wrapped with `torch.compiler.disable`.",
        ),
        (
            r"'skip function graph_break in file [^']*torch/_dynamo/decorators\.py'",
            "Call to `torch._dynamo.graph_break()`",
            "User-inserted graph break.",
        ),
        (
            r"Input tensor for tolist must be an integer tensor",
            "Tensor.tolist() with non-integer tensor",
            "Dynamo currently does not support tracing `tolist()` on non-integer tensors.",
        ),
        (
            r"Tensor\.backward$",
            "Unsupported Tensor.backward() call",
            "Dynamo currently does not support tracing `Tensor.backward()`.",
        ),
    )
)


def read_registered_reasons(message: str) -> tuple[Reason, ...]:
    """The chain in a message, each link with the id that its text has in torch's registry."""
    return tuple(_links(message))


def _links(message: str) -> Iterator[Reason]:
    for reason in read_reasons(_RAISED.sub("", message)):
        if reason.gb_id is not None:
            yield reason
            continue
        later = reason if reason.explanation else _in_later_words(reason)
        yield replace(later, gb_id=IDS.get(later.title.rstrip(".")))


def _in_later_words(reason: Reason) -> Reason:
    """A reason of torch 2.6, which is one text, as later releases print it."""
    text = reason.title
    for early in _EARLY:
        match = early.pattern.match(text)
        if match is not None:
            return replace(
                reason,
                title=early.title,
                explanation=early.explanation.format(**match.groupdict()),
                context=text,
            )
    return replace(reason, title=text[:_SHORT])
