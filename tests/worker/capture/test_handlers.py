"""Handlers that eager mode runs for an exception that leaves compiled code."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from tests.support.case_files import marked
from tests.support.recording import record

pytestmark = pytest.mark.torch

INSIDE = {
    # name: body of `f`, as the handler is shown, type in eager mode, whether it works outside
    "dimension": (
        "try:\n    return torch.softmax(x, dim=2)\nexcept IndexError:\n    return x",
        ("except IndexError", "IndexError", True),
    ),
    "shape": (
        "try:\n    return x @ x\nexcept (ValueError, RuntimeError):\n    return x",
        ("except (ValueError, RuntimeError)", "RuntimeError", True),
    ),
    "value": (
        "try:\n    return x.gather(0, torch.tensor([[7, 7, 7]]))\nexcept RuntimeError as error:\n    return x",
        ("except RuntimeError", "RuntimeError", True),
    ),
    "every_exception": (
        "try:\n    return x.squeeze(7)\nexcept:\n    return x",
        ("except", "IndexError", True),
    ),
    "base": (
        "try:\n    return x[5]\nexcept LookupError:\n    return x",
        ("except LookupError", "IndexError", True),
    ),
    "suppress": (
        "with contextlib.suppress(KeyError, IndexError):\n    x = x.squeeze(7)\nreturn x",
        ("with contextlib.suppress(KeyError, IndexError)", "IndexError", True),
    ),
    "tuple_of_the_module": (
        "try:\n    return x.squeeze(7)\nexcept EXPECTED:\n    return x",
        ("except EXPECTED", "IndexError", True),
    ),
    "type_of_torch": (
        "try:\n    return torch.linalg.cholesky(-torch.eye(3))\nexcept torch.linalg.LinAlgError:\n    return x",
        ("except torch.linalg.LinAlgError", "_LinAlgError", True),
    ),
    "assertion": (
        "try:\n    assert (x > 1e9).all()\nexcept AssertionError:\n    return x + 1\nreturn x",
        ("except AssertionError", "AssertionError", False),
    ),
    "called": (
        "try:\n    return called(x)\nexcept IndexError:\n    return x",
        ("except IndexError", "IndexError", True),
    ),
    "outer_try": (
        "try:\n    try:\n        return x @ x\n    except KeyError:\n        x\nexcept RuntimeError:\n    return x + 1",
        ("except RuntimeError", "RuntimeError", True),
    ),
    "passed_on_as_another": (
        (
            "try:\n    try:\n        return x[5]\n    except IndexError as error:\n"
            "        raise Missing from error\nexcept KeyError:\n    return x"
        ),
        ("except KeyError", "IndexError", False),
    ),
    "raises_on_one_side": (
        "try:\n    return x @ x\nexcept RuntimeError:\n    if x.dim() > 5:\n        raise\nreturn x",
        ("except RuntimeError", "RuntimeError", True),
    ),
    "raises_another_on_both_sides": (
        (
            "try:\n    try:\n        return x[5]\n    except IndexError:\n        if x.dim() > 5:\n"
            "            raise Missing\n        else:\n            raise KeyError\nexcept KeyError:\n    return x"
        ),
        ("except KeyError", "IndexError", False),
    ),
    "finally_returns": (
        "try:\n    x = x.squeeze(7)\nfinally:\n    # whatever came\n\n    return x",
        ("finally", "IndexError", True),
    ),
    "finally_ends_the_loop": (
        (
            "for _ in range(2):\n    try:\n        x = x @ x\n    except ValueError:\n        pass\n"
            "    finally:\n        break\nreturn x"
        ),
        ("finally", "RuntimeError", True),
    ),
    "own_manager": (
        "with Selective(x):\n    x = x.squeeze(7)\nreturn x + 1",
        ("with Selective(x)", "IndexError", True),
    ),
    "variable_and_inner_manager": (
        "quiet = Quiet()\nwith quiet, Selective(x):\n    x = x @ x\nreturn x + 1",
        ("with quiet", "RuntimeError", True),
    ),
    "generator": (
        "with ignoring():\n    x = x[5]\nreturn x + 1",
        ("with ignoring()", "IndexError", True),
    ),
}
NONE = {
    "other_type": "try:\n    return x @ x\nexcept KeyError:\n    return x",
    "raises_it_again": "try:\n    return x @ x\nexcept RuntimeError:\n    x = x + 1\n    raise",
    "raises_on_both_sides": (
        "try:\n    return x @ x\nexcept RuntimeError as error:\n    if x.dim() > 1:\n        raise\n"
        "    elif x.dim() == 1:\n        raise error\n    else:\n        raise Missing from error"
    ),
    "raises_another_on_each_side_that_no_clause_catches": (
        "try:\n    try:\n        return x[5]\n    except IndexError:\n        if x.dim() == 1:\n"
        "            raise Missing from None\n        else:\n            raise KeyError from None\nexcept IndexError:\n"
        "    return x"
    ),
    "raises_in_a_with": "try:\n    return x @ x\nexcept RuntimeError:\n    with torch.no_grad():\n        raise",
    "in_the_handler": "try:\n    raise KeyError\nexcept KeyError:\n    return x @ x",
    "in_the_else": "try:\n    y = x + 1\nexcept RuntimeError:\n    y = x\nelse:\n    return y @ y",
    "function_defined_in_the_try": (
        "try:\n    def inner(y):\n        return y @ y\nexcept RuntimeError:\n    return x\nreturn inner(x)"
    ),
    "passed_on_by_the_first_clause": (
        "try:\n    return x[5]\nexcept IndexError as error:\n    raise error\nexcept Exception:\n    return x"
    ),
    "passed_on_as_another_type": ("try:\n    return x[5]\nexcept IndexError:\n    raise Missing from None"),
    "manager_of_another_type": "with Selective(x):\n    x = x @ x\nreturn x",
    "generator_that_only_cleans_up": "with passing():\n    x = x @ x\nreturn x",
    "manager_that_decides_by_data": "with Undecided():\n    x = x @ x\nreturn x",
    "finally_that_may_return": "try:\n    x = x @ x\nfinally:\n    if x.dim() > 5:\n        return x\nreturn x",
    "only_finally": "try:\n    return x @ x\nfinally:\n    x = x + 1",
}
FURTHER = {
    "every_exception",
    "tuple_of_the_module",
    "type_of_torch",
    "called",
    "raises_another_on_both_sides",
    "finally_ends_the_loop",
    "raises_on_both_sides",
    "in_the_else",
    "passed_on_as_another_type",
    "generator_that_only_cleans_up",
    "only_finally",
}
"""Handlers of the kind of another one."""
PROGRAM = """
import contextlib

EXPECTED = (KeyError, IndexError)

class Missing(KeyError):
    pass

class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True

class Selective(Quiet):
    def __init__(self, x):
        self.x = x

    def __exit__(self, kind, error, trace):
        if kind is None:
            return False
        self.x = None
        return issubclass(kind, (LookupError, TypeError))

class Undecided(Quiet):
    answers = [False]

    def __exit__(self, kind, error, trace):
        return self.answers[0]

@contextlib.contextmanager
def ignoring():
    try:
        yield
    except IndexError:
        pass

@contextlib.contextmanager
def passing():
    try:
        yield
    finally:
        pass

def called(x):
    return torch.softmax(x, dim=2)

@torch.compile
def f(x):
{body}

def main():
    f(torch.randn(2, 3))
"""


def _program(body: str) -> str:
    return PROGRAM.format(body="\n".join(f"    {line}" for line in body.splitlines()))


@pytest.mark.parametrize("name", marked(INSIDE, FURTHER))
def test_a_handler_in_compiled_code_does_not_run(tmp_path: Path, name: str) -> None:
    body, (text, exception, catches_outside) = INSIDE[name]
    failure = record(tmp_path, _program(body)).failure
    assert failure is not None
    handler = failure.handler
    assert handler is not None
    assert (handler.text, handler.exception, handler.catches_outside) == (text, exception, catches_outside)
    assert (handler.is_compiled, handler.location.function) == (True, "f")
    assert "not the compiler" not in failure.next_step


@pytest.mark.parametrize("name", marked(NONE, FURTHER))
def test_an_exception_that_eager_mode_does_not_catch_has_no_handler(tmp_path: Path, name: str) -> None:
    failure = record(tmp_path, _program(NONE[name])).failure
    assert failure is not None
    assert failure.handler is None


@pytest.mark.parametrize("aot_autograd", [False, True])
def test_eager_mode_was_tried_where_the_graph_ran(tmp_path: Path, aot_autograd: bool) -> None:  # noqa: FBT001 - pytest's
    value, shape = (
        record(tmp_path, _program(INSIDE[name][0]), aot_autograd=aot_autograd).failure
        for name in ("value", "shape")
    )
    assert value is not None
    assert shape is not None
    assert value.handler is not None
    assert shape.handler is not None
    assert (value.handler.is_tried, shape.handler.is_tried) == (True, False)


@pytest.mark.parametrize("name", ["own_manager", "finally_returns", "converted", "positive"])
def test_a_program_that_generates_code_fails_on_its_own_line(tmp_path: Path, name: str) -> None:
    """Inductor's code names nodes of the captured graph; torch raises what AOTAutograd refuses as it is."""
    body, text, line = OWN_BACKENDS[name]
    failure = record(
        tmp_path, _program(body).replace("torch.randn(2, 3)", "-torch.eye(3)"), own_backend=True
    ).failure
    assert failure is not None
    assert failure.stack[-1].path.startswith(str(tmp_path))
    assert linecache.getline(failure.stack[-1].path, failure.stack[-1].line).strip() == line
    assert (failure.handler.text if failure.handler is not None else None) == text


OWN_BACKENDS = {
    "own_manager": (
        "with Quiet():\n    x = x.t()\n    x = torch.linalg.cholesky(x)\nreturn x",
        "with Quiet()",
        "x = torch.linalg.cholesky(x)",
    ),
    "finally_returns": (
        "try:\n    return x.softmax(5)\nfinally:\n    return x.t()",
        "finally",
        "return x.softmax(5)",
    ),
    "converted": (
        "try:\n    return torch.linalg.inv(x[:, :1].expand(3, 3))\nexcept RuntimeError:\n    raise Missing",
        None,
        "return torch.linalg.inv(x[:, :1].expand(3, 3))",
    ),
    "positive": ("y = x.t()\nreturn torch.linalg.cholesky(y)", None, "return torch.linalg.cholesky(y)"),
}

REFUSED = """
class Labeled(torch.Tensor):
    pass

@torch.compile(backend="{backend}")
def f(x):
    try:
        return x * 2 + 1
    except TypeError:
        return x

def main():
    f(torch.ones(3).as_subclass(Labeled))
"""


@pytest.mark.parametrize("kind", ["own_backend", "aot_autograd"])
def test_what_a_backend_of_the_program_refuses_has_no_handler_in_eager_mode(
    tmp_path: Path, kind: str
) -> None:
    failure = record(tmp_path, REFUSED.format(backend="aot_eager"), **{kind: True}).failure
    assert failure is not None
    assert (failure.exception, failure.handler) == ("TypeError", None)
    assert failure.next_step.startswith("Only compiled code raises this")
    assert record(tmp_path, REFUSED.format(backend="eager"), **{kind: True}).failure is None


def test_what_inductor_does_not_check_is_not_refused(tmp_path: Path) -> None:
    assert record(tmp_path, REFUSED.format(backend="inductor"), aot_autograd=True).failure is None


OUTSIDE = """
@torch.compile
def f(x):
    return {line}

def main():
    try:
        f(torch.ones(2))
    except {caught}:
        pass
"""


@pytest.mark.parametrize(
    ("line", "caught", "outcome"),
    [
        ("x.to(torch.int8) / 'a'", "TypeError", "escapes"),
        ("x.to(torch.int8) / 'a'", "(TypeError, RuntimeError)", "caught"),
        ("x[5]", "IndexError", "caught"),
        ("x[5]", "KeyError", "fails in eager mode too"),
    ],
)
def test_a_handler_outside_may_catch_what_eager_mode_raises_alone(
    tmp_path: Path, line: str, caught: str, outcome: str
) -> None:
    failure = record(tmp_path, OUTSIDE.format(line=line, caught=caught)).failure
    if outcome == "caught":
        assert failure is None
        return
    assert failure is not None
    assert (failure.handler is not None) is (outcome == "escapes")
    if failure.handler is not None:
        assert (failure.handler.is_compiled, failure.handler.location.function) == (False, "main")


CURES = {
    "test_before": "return torch.softmax(x, dim=2) if x.dim() > 2 else x.mean(-1)",
    "disabled": (
        "@torch.compiler.disable\ndef tried(y):\n    try:\n        return y.squeeze(7)\n"
        "    except IndexError:\n        return y\nreturn tried(x * 2) + 1"
    ),
    "no_assert": "if not (x > 1e9).all():\n    return x + 1\nreturn x",
}


@pytest.mark.parametrize("name", CURES)
def test_the_cures_that_are_named_work(tmp_path: Path, name: str) -> None:
    recorded = record(tmp_path, _program(CURES[name]))
    assert recorded.failure is None
    assert any(compiled.outcome.value == "compiled" for compiled in recorded.parts.compiles)
