"""Small programs whose inputs were changed by hand: what torch alone compiles for each change, and what forecasts say.

Run as a script with names of programs, it imports torch and nothing of Fuselight, makes each call of each change after
the first call, and prints how many graphs each compiled. Invariant: the changes are those that a reader would make, in
no other order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass

HEAD = """\
import collections, dataclasses
import torch
from torch import nn

"""


@dataclass(frozen=True)
class HandProgram:
    """A program, its first call, and by the noun of a forecast the calls with further values."""

    source: str
    """After `HEAD`; it compiles `f`."""
    call: str
    changes: dict[str, tuple[str, ...]]
    """Statements; the first one has the value of the forecast, and they run in their order."""


def _sizes(call: str, *sizes: int) -> tuple[str, ...]:
    return tuple(call.replace("N", str(size)) for size in sizes)


def _values(statement: str, *values: object) -> tuple[str, ...]:
    return tuple(statement.replace("V", repr(value)) for value in values)


_MODULE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.v = nn.Linear(4, 4), {value}
    def forward(self, x):
        return {body}
net = Net()
f = torch.compile(net{arguments})
"""


def _module(value: object, body: str = "self.layer(x) * self.v", arguments: str = "") -> str:
    return _MODULE.format(value=value, body=body, arguments=arguments)


def _function(body: str, parameters: str = "x", arguments: str = "", head: str = "") -> str:
    return f"{head}def g({parameters}):\n    {body}\nf = torch.compile(g{arguments})\n"


_X = "torch.ones(6, 4)"
_BATCH = _sizes("f(torch.ones(N, 4))", 5, 7, 8, 9)
PROGRAMS = {
    "plain": HandProgram(_function("return x.sin() + 1"), f"f({_X})", {"the batch": _BATCH}),
    "always dynamic": HandProgram(
        _function("return x.sin() + 1", arguments=", dynamic=True"), f"f({_X})", {"the batch": _BATCH}
    ),
    "never dynamic": HandProgram(
        _function("return x.sin() + 1", arguments=", dynamic=False"), f"f({_X})", {"the batch": _BATCH}
    ),
    "float of a module": HandProgram(
        _module(0.5), f"f({_X})", {"self.v": _values(f"net.v = V; f({_X})", 1.0, 1.75, 2.875, 4.5625)}
    ),
    "int of a module": HandProgram(
        _module(3), f"f({_X})", {"self.v": _values(f"net.v = V; f({_X})", 4, 5, 6, 7)}
    ),
    "string of a module": HandProgram(
        _module("'a'", "self.layer(x) * len(self.v)"), f"f({_X})",
        {"self.v": _values(f"net.v = V; f({_X})", "a_", "a__", "a___", "a____")},
    ),
    "fullgraph": HandProgram(
        _module(3, arguments=", fullgraph=True"), f"f({_X})",
        {"self.v": _values(f"net.v = V; f({_X})", 4, 5, 6, 7), "the batch": _BATCH},
    ),
    "int argument": HandProgram(
        _function("return x * n", "x, n"), f"f({_X}, 3)", {"n": _values(f"f({_X}, V)", 4, 5, 6, 7)}
    ),
    "float argument": HandProgram(
        _function("return x * n", "x, n"), f"f({_X}, 2.0)",
        {"n": _values(f"f({_X}, V)", 3.25, 5.125, 7.9375, 12.1562)},
    ),
    "probability": HandProgram(
        _function("return nn.functional.dropout(x, p)", "x, p"), f"f({_X}, 0.1)",
        {"p": _values(f"f({_X}, V)", 0.4, 0.7, 0.85, 0.925)},
    ),
    "loop over a number": HandProgram(
        _function("return sum(x * i for i in range(n))", "x, n"), f"f({_X}, 3)",
        {"n": _values(f"f({_X}, V)", 4, 5, 6, 7)},
    ),
    "loop over a size": HandProgram(
        _function("return sum(x[i] * i for i in range(x.size(0)))"), f"f({_X})", {"the batch": _BATCH}
    ),
    "number in a condition": HandProgram(
        _function("return x * n if n > 5 else x + n", "x, n"), f"f({_X}, 3)",
        {"n": _values(f"f({_X}, V)", 4, 5, 6, 7)},
    ),
    "number as a size": HandProgram(
        _function("return x.sum() + torch.ones(n)", "x, n"), f"f({_X}, 3)",
        {"n": _values(f"f({_X}, V)", 4, 5, 6, 7)},
    ),
    "number as a text": HandProgram(
        _function("return x * len(str(n))", "x, n"), f"f({_X}, 3)", {"n": _values(f"f({_X}, V)", 4, 5, 6, 7)}
    ),
    "size in a condition": HandProgram(
        _function("return x * 2 if x.size(0) % 2 == 0 else x + 1"), f"f({_X})", {"the batch": _BATCH}
    ),
    "string argument": HandProgram(
        _function("return x.mean() if how == 'mean' else x.sum()", "x, how"), f"f({_X}, 'mean')",
        {"how": _values(f"f({_X}, V)", "mean_", "mean__", "mean___", "mean____")},
    ),
    "list of tensors": HandProgram(
        _function("return sum(xs)", "xs"), f"f([{_X}, {_X}])",
        {
            "the length of xs": tuple(f"f([{_X}] * {count})" for count in (3, 4, 5, 6)),
            "the batch": _sizes("f([torch.ones(N, 4), torch.ones(N, 4)])", 5, 7, 8, 9),
        },
    ),
    "dict of tensors": HandProgram(
        _function("return d['a'] * d['b'] + d['n']", "d"), f"f({{'a': {_X}, 'b': {_X}, 'n': 3}})",
        {
            "the batch": _sizes("f({'a': torch.ones(N, 4), 'b': torch.ones(N, 4), 'n': 3})", 5, 7, 8, 9),
            "d['n']": _values(f"f({{'a': {_X}, 'b': {_X}, 'n': V}})", 4, 5, 6, 7),
        },
    ),
    "dataclass": HandProgram(
        _function(
            "return batch.tokens * batch.mask * batch.scale", "batch",
            head="@dataclasses.dataclass\nclass Batch:\n    tokens: object\n    mask: object\n    scale: float = 2.0\n",
        ),
        f"f(Batch({_X}, {_X}))",
        {
            "the batch": _sizes("f(Batch(torch.ones(N, 4), torch.ones(N, 4)))", 5, 7, 8, 9),
            "batch.scale": _values(f"f(Batch({_X}, {_X}, V))", 3.25, 5.125, 7.9375, 12.1562),
        },
    ),
    "named tuple": HandProgram(
        _function(
            "return pair.left + pair.right.sum() * pair.n", "pair",
            head="Pair = collections.namedtuple('Pair', 'left right n')\n",
        ),
        f"f(Pair({_X}, torch.ones(3), 4))",
        {
            "the batch": _sizes("f(Pair(torch.ones(N, 4), torch.ones(3), 4))", 5, 7, 8, 9),
            "pair.right.size(0)": _sizes("f(Pair(torch.ones(6, 4), torch.ones(N), 4))", 2, 4, 5, 6),
            "pair.n": _values(f"f(Pair({_X}, torch.ones(3), V))", 5, 6, 7, 8),
        },
    ),
    "nested": HandProgram(
        _function(
            "return sum(part['x'] for part in batch.parts)", "batch",
            head="@dataclasses.dataclass(frozen=True)\nclass Batch:\n    parts: object\n",
        ),
        f"f(Batch([{{'x': {_X}}}]))",
        {"the batch": _sizes("f(Batch([{'x': torch.ones(N, 4)}]))", 5, 7, 8, 9)},
    ),
    "attribute of an argument": HandProgram(
        _function(
            "return x * options.rate + options.shift", "x, options",
            head="class Options: ...\noptions = Options()\noptions.rate, options.shift = 2, 0.5\n",
        ),
        f"f({_X}, options)",
        {
            "options.rate": _values(f"options.rate = V; f({_X}, options)", 3, 4, 5, 6),
            "options.shift": _values(f"options.shift = V; f({_X}, options)", 1.0, 1.75, 2.875, 4.5625),
        },
    ),
    "globals": HandProgram(
        _function("return x * RATE + SHIFT", head="RATE, SHIFT = 2, 0.5\n"),
        f"f({_X})",
        {
            "RATE": _values(f"RATE = V; f({_X})", 3, 4, 5, 6),
            "SHIFT": _values(f"SHIFT = V; f({_X})", 1.0, 1.75, 2.875, 4.5625),
        },
    ),
    "part after a break": HandProgram(
        _function("y = x.sin()\n    torch._dynamo.graph_break()\n    return y * n", "x, n"),
        f"f({_X}, 3)",
        {"n": _values(f"f({_X}, V)", 4, 5, 6, 7), "the batch": _sizes("f(torch.ones(N, 4), 3)", 5, 7, 8, 9)},
    ),
    "backward": HandProgram(
        _function("return (x * n).sum()", "x, n"),
        "f(torch.ones(6, 4, requires_grad=True), 2).backward()",
        {
            "the batch": _sizes("f(torch.ones(N, 4, requires_grad=True), 2).backward()", 5, 7, 8, 9),
            "n": _values("f(torch.ones(6, 4, requires_grad=True), V).backward()", 3, 4, 5, 6),
        },
    ),
    "fixed width": HandProgram(
        _module(1.0, "x.view(-1, 24) * self.v"), f"f({_X})",
        {"the batch": _BATCH, "self.v": _values(f"net.v = V; f({_X})", 1.75, 2.875, 4.5625, 7.0938)},
    ),
}  # fmt: skip
FURTHER = {
    "plain",
    "never dynamic",
    "float of a module",
    "int of a module",
    "string of a module",
    "int argument",
    "float argument",
    "probability",
    "loop over a size",
    "number in a condition",
    "number as a size",
    "number as a text",
    "dict of tensors",
    "named tuple",
    "nested",
    "attribute of an argument",
    "fixed width",
}
"""Of these, the programs whose kinds of changes others have, too."""


def count_by_hand(chosen: Iterable[str]) -> dict[str, dict[str, list[int | str]]]:
    """The graphs that each call compiles, or the exception that it raises, by program and change."""
    import torch  # noqa: PLC0415 - the tests read the programs without it

    counted: list[int] = [0]

    def backend(graph: torch.fx.GraphModule, _inputs: object) -> object:
        counted[0] += 1
        return graph.forward

    compile_for_real = torch.compile
    torch.compile = lambda model, **options: compile_for_real(model, backend=backend, **options)  # type: ignore[assignment]
    counts: dict[str, dict[str, list[int | str]]] = {}
    for name in chosen:
        program = PROGRAMS[name]
        for noun, calls in program.changes.items():
            torch.compiler.reset()
            names: dict[str, object] = {"__name__": "__main__"}
            exec(f"{HEAD}{program.source}\n{program.call}", names)  # noqa: S102 - our own programs
            row = counts.setdefault(name, {}).setdefault(noun, [])
            for call in calls:
                before = counted[0]
                try:
                    exec(call, names)  # noqa: S102 - the same
                except Exception as error:  # noqa: BLE001 - a call may not fit
                    row.append(type(error).__name__)
                else:
                    row.append(counted[0] - before)
    return counts


if __name__ == "__main__":
    print(json.dumps(count_by_hand(sys.argv[1:])))  # noqa: T201 - its output
