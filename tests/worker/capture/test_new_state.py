"""Recompilations of an optimizer's step because its first step created its state, and of dicts with more keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.report import GuardCause, GuardFailure
from tests.support.recording import Recorded, record

pytestmark = pytest.mark.torch


def nearest(got: Recorded, index: int) -> tuple[GuardFailure, ...]:
    return got.parts.recompiles[index].entries[0].failures


def test_state_that_the_first_step_created_is_found_where_a_rate_changed_too(tmp_path: Path) -> None:
    """torch checks the length of a dict in the node itself: among failed leaf guards it was lost."""
    got = record(
        tmp_path,
        """
        layer = nn.Linear(4, 4)
        descent = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

        @torch.compile
        def step():
            descent.step()

        def main():
            for rate in (0.1, 0.05):
                descent.param_groups[0]["lr"] = rate
                layer(torch.ones(2, 4)).sum().backward()
                step()
        """,
    )
    assert len(got.parts.recompiles) == 1
    failures = nearest(got, 0)
    assert {failure.difference for failure in failures} == {
        "self.param_groups[0]['lr'] was 0.1, now 0.05",
        "self.state was not created yet, now it is",
    }
    assert [failure.source for failure in failures if failure.is_new_state] == ["self.state"]


def test_the_state_of_an_own_optimizer_is_new_only_once_all_parameters_have_theirs(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Lion(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})

        a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        both, one = Lion([a, b]), Lion([a, b])

        @torch.compile
        def f(x, optimizer):
            return x * 2 if a in optimizer.state else x + 1

        def main():
            for optimizer, parameters in ((both, (a, b)), (one, (a,))):
                torch._dynamo.reset()
                f(torch.ones(2), optimizer)
                for each in parameters:
                    optimizer.state[each]["m"] = torch.ones(2)
                f(torch.ones(2), optimizer)
        """,
    )
    of_all, of_some = (nearest(got, index) for index in (0, 1))
    assert [(failure.is_new_state, failure.difference) for failure in of_all] == [
        (True, "optimizer.state was not created yet, now it is")
    ]
    assert [failure.is_new_state for failure in of_some] == [False]


def test_a_dict_with_more_keys_is_a_failure_of_its_own_among_others(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        names = {"a": 1.0}

        @torch.compile
        def f(x):
            return x * sum(names.values())

        def main():
            f(torch.ones(4, 4))
            names["b"] = 2.0
            f(torch.ones(4))
        """,
    )
    causes = {failure.difference: failure.cause for failure in nearest(got, 0)}
    assert causes == {"x.dim() was 2, now 1": GuardCause.RANK, "len(names) was 1, now 2": GuardCause.KEYS}


def test_an_element_of_a_closure_variable_has_the_name_of_the_variable(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        from types import SimpleNamespace

        def scaled(table):
            def inner(x):
                return x * table["a"].b
            return inner

        table = {"a": SimpleNamespace(b=2.0)}

        @torch.compile
        def f(x, function):
            return function(x)

        def main():
            for table["a"].b in (2.0, 3.0):
                f(torch.ones(2), scaled(table))
        """,
    )
    (failure,) = nearest(got, 0)
    assert (failure.source, failure.difference) == ("table['a'].b", "table['a'].b was 2.0, now 3.0")


HELD = """
from types import SimpleNamespace

settings = SimpleNamespace(rows=3)

def inner(x, given=settings, table=torch.ones(8), *, gain=2):
    return x[: given.rows] * table[: given.rows] * gain

def made(count, shift):
    def outer(x):
        return inner(x) * count + shift.sum()
    return outer

outer = made(2, torch.ones(5))

@torch.compile(dynamic=True)
def f(x):
    return outer(x)

def main():
    f(torch.ones(8))
    settings.rows = 4
    f(torch.ones(8))
    inner.__kwdefaults__ = {"gain": 5}
    f(torch.ones(8))
    outer.__closure__[0].cell_contents = 7
    f(torch.ones(8))
"""


def test_what_a_called_function_holds_has_its_name_in_each_part_of_a_report(tmp_path: Path) -> None:
    """Defaults and closure variables had torch's numbers, and in guards and symbols all of them."""
    got = record(tmp_path, HELD)
    changed = [nearest(got, index)[0].difference for index in range(3)]
    assert changed == ["given.rows was 3, now 4", "gain was 2, now 5", "count was 2, now 7"]
    first = got.parts.compiles[0]
    assert {"given.rows", "table", "gain", "count", "shift"} <= {guard.source for guard in first.guards}
    symbols = {symbol.source: symbol.is_default for symbol in first.symbols}
    assert symbols == {"x.size(0)": False, "table.size(0)": True, "shift.size(0)": False}
