"""The statement of `%fuselight`, in the names of the notebook."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fuselight.notebook.line_call import run_line

CELLS: Any = SimpleNamespace(running=lambda: None)


def run(text: str, **names: Any) -> tuple[Any, dict[str, Any]]:
    value, _ = run_line(text, None, SimpleNamespace(user_ns=names), CELLS)
    return value, names


def test_what_the_arguments_assign_stays_and_nothing_else_is_added() -> None:
    value, names = run("max((y := 3), 2);")
    assert value == 3
    assert {name for name in names if not name.startswith("__")} == {"y"}


def test_functions_in_the_arguments_see_later_changes() -> None:
    value, names = run("list(map(lambda x: x, [lambda: later]))", later=1)
    names["later"] = 2
    assert value[0]() == 2


def test_the_callee_may_use_the_magic_itself() -> None:
    names: dict[str, Any] = {}
    shell = SimpleNamespace(user_ns=names)
    names["outer"] = type(
        "Outer", (), {"__call__": lambda _self, x: run_line("abs(-4)", None, shell, CELLS)[0] + x}
    )()
    assert run_line("outer(1)", None, shell, CELLS)[0] == 5
