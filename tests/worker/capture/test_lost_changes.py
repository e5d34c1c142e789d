"""Changes that compiled code does not make: what is reported agrees with what eager and compiled calls leave."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import TargetRef, UnseenKind
from fuselight_server.explain.findings import findings
from tests.support.recording import record, report_of_parts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

CHANGES = {
    "add_member": ("{Kind.A}", "box.held.add(Kind.B)"),
    "add_again": ("{Kind.A}", "box.held.add(Kind.A)"),
    "add_and_discard": ("{Kind.A}", "box.held.add(Kind.B); box.held.discard(Kind.B)"),
    "add_to_empty": ("set()", "box.held.add(Kind.B)"),
    "discard_member": ("{Kind.A, Kind.B}", "box.held.discard(Kind.A)"),
    "clear_functions": ("{len, build}", "box.held.clear()"),
    "add_object": ("{Point(1)}", "box.held.add(POINT)"),
    "add_text": ("{'a'}", "box.held.add('b')"),
    "discard_text": ("{'a', 'b'}", "box.held.discard('a')"),
    "subtract_text": ("{'a', 'b'}", "box.held -= {'a'}"),
    "intersect_numbers": ("{1, 2}", "box.held &= {1}"),
    "subclass": ("Names()", "box.held.add('a')"),
    "dict_of_members": ("{Kind.A: 1}", "box.held[Kind.B] = 2"),
    "pop_member": ("{Kind.A: 1, Kind.B: 2}", "box.held.pop(Kind.A)"),
    "move_to_end": ("collections.OrderedDict(a=1, b=2)", "box.held.move_to_end('a')"),
    "put_again": ("collections.OrderedDict(a=1, b=2)", "box.held['a'] = box.held.pop('a')"),
    "append_member": ("[Kind.A]", "box.held.append(Kind.B)"),
    "count_members": ("collections.Counter()", "box.held[Kind.B] += 1"),
    "default_of_member": ("collections.defaultdict(list)", "box.held[Kind.B].append(1)"),
}
SOURCE = """
import collections, dataclasses, enum, types

class Kind(enum.Enum):
    A = 1
    B = 2

class Names(set):
    pass

@dataclasses.dataclass(frozen=True)
class Point:
    x: int

POINT = Point(2)
differing = []

def build(function, held):
    torch._dynamo.reset()
    left = []
    for call in (function, torch.compile(function, backend="eager")):
        box = types.SimpleNamespace(held=held())
        call(box, torch.ones(2))
        left.append((list(box.held) if isinstance(box.held, dict) else None, box.held))
    if left[0] != left[1]:
        differing.append(function.__name__)
"""


def test_what_is_reported_as_lost_is_what_differs_from_eager_mode(tmp_path: Path) -> None:
    functions = "".join(
        f"\ndef {name}(box, x):\n    {change}  # {name}\n    return x * 2\n"
        for name, (_, change) in CHANGES.items()
    )
    calls = "".join(f"    build({name}, lambda: {held})\n" for name, (held, _) in CHANGES.items())
    source = f"{SOURCE}{functions}\ndef main():\n{calls}    print(*differing)\n"
    recorded = record(tmp_path, source)
    assert recorded.failure is None
    assert not recorded.parts.problems
    differing = set(recorded.printed.split())
    lost = [change for change in recorded.parts.unseen if change.what == "box.held"]
    assert {change.function for change in lost} == differing
    assert {change.stack[-1].line for change in lost} == {recorded.line(f"# {name}") for name in differing}
    for name in ("add_text", "dict_of_members", "put_again", "append_member"):
        assert name not in differing, "what the advice names works"


def test_a_lost_change_has_a_finding_on_its_line(tmp_path: Path) -> None:
    recorded = record(
        tmp_path,
        textwrap.dedent(
            """
            class Names(set):
                pass

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.names = Names()
                    self.order = {"a": 1}

                def forward(self, x):
                    self.order["b"] = 2
                    self.names.add("x")
                    return x + 1

            def main():
                torch.compile(Net(), backend="eager")(torch.ones(2))
            """
        ),
    )
    target = TargetRef(recorded.path, "main", 1, "function")
    given = report_of_parts(recorded.parts, target, roots=(str(tmp_path),))
    (lost,) = [finding for finding in findings(given) if finding.code == "FL205"]
    assert lost.span.line == recorded.line('self.names.add("x")')
    assert lost.title == "compiled code of `Net.forward` adds nothing to `self.names`"
    assert "dict" in lost.hints[0]
    assert lost.subject == f"{UnseenKind.LOST_ADDITION.value} self.names"


DRAWS = {
    "draw": "return x * box.held.random()",
    "whole_number": "return x + box.held.randint(0, 1000)",
    "step_range": "return x + box.held.randrange(1000)",
    "two": "return x * box.held.random() + box.held.uniform(2, 3)",
    "branch": "return x * 2 if box.held.random() < 0.5 else x + 1",
    "seeded": "box.held.seed(3); return x * box.held.random()",
    "put_back": "state = box.held.getstate(); y = x * box.held.random(); box.held.setstate(state); return y",
    "not_traced": "return x + box.held.choice([1, 2, 3, 4, 5, 6, 7])",
    "new": "return x * random.Random(5).random()",
    "module": "return x * random.random()",
    "module_range": "return x + random.randint(0, 1000)",
    "passed": "return x * number",
}


def test_draws_that_are_reported_as_lost_are_those_that_differ_from_eager_mode(tmp_path: Path) -> None:
    functions = "".join(
        f"\ndef {name}(box, x, number):\n    {body}  # {name}\n" for name, body in DRAWS.items()
    )
    source = f"""
import random, types, warnings
differing = []

def build(function):
    torch._dynamo.reset()
    left = []
    for call in (function, torch.compile(function, backend="eager")):
        random.seed(7)
        box, other = types.SimpleNamespace(held=random.Random(0)), random.Random(1)
        drawn = [float(call(box, torch.ones(1), other.random())) for _ in range(5)]
        left.append((drawn, box.held.getstate()))
    if left[0] != left[1]:
        differing.append(function.__name__)
{functions}
def main():
    with warnings.catch_warnings(action="ignore"):  # `choice` is not traced
        for function in ({", ".join(DRAWS)}):
            build(function)
    print(*differing)
"""
    recorded = record(tmp_path, source)
    assert recorded.failure is None
    assert not recorded.parts.problems
    differing = set(recorded.printed.split())
    lost = [change for change in recorded.parts.unseen if change.kind is UnseenKind.LOST_DRAW]
    assert {change.function for change in lost} == differing
    assert {(change.what, change.stack[-1].line) for change in lost} == {
        ("box.held", recorded.line(f"# {name}")) for name in differing
    }
    assert not differing & {"module", "module_range", "passed"}, "what the advice names works"
