"""Arguments, functions and settings that only some releases of torch have, in sources that use them."""

from __future__ import annotations

import inspect
import types
from pathlib import Path

import pytest
import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.measure.compile_configuration import Compiled, _as_configured
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.report import Culprit
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

KNOWN = inspect.signature(torch.compile).parameters
SHAPES = [name for name in ("dynamic_shapes", "shapes_spec") if name in KNOWN]
SIZES = """\
import torch
from torch.fx.experimental.dynamic_spec import ShapeVar, TensorSpec
# fuselight: f(f32[4, 8])
# fuselight: f(f32[7, 8])
@torch.compile({name}={{"x": TensorSpec([ShapeVar("batch"), None])}})
def f(x):
    return x.sin()
"""


@pytest.mark.parametrize("name", SHAPES or [pytest.param("", marks=pytest.mark.skip("this torch has none"))])
def test_sizes_that_torch_compile_is_given_are_dynamic(live: LiveWorker, name: str) -> None:
    report = live.analyse(SIZES.replace("{name}", name).replace("{{", "{").replace("}}", "}"))
    assert report.failures == ()
    assert len(report.compiles) == 1
    assert report.recompiles == ()
    assert [symbol.source for symbol in report.compiles[0].symbols] == ["x.size(0)"]


@pytest.mark.parametrize(
    "name", [name for name in ("dynamic_shapes", "shapes_spec", "from_the_future") if name not in KNOWN]
)
def test_an_argument_that_this_torch_lacks_is_named_on_its_line(live: LiveWorker, name: str) -> None:
    failure = live.failure(f"""\
import torch
# fuselight: f(f32[4])
@torch.compile({name}=None)
def f(x):
    return x
""")
    assert (failure.culprit, failure.kind) == (Culprit.USER, "exception")
    assert (
        failure.message == f"TypeError: torch.compile has no argument `{name}` in torch {torch.__version__}"
    )
    assert failure.stack[-1].line == 3
    if SHAPES and name != "from_the_future":
        assert failure.next_step == f"This torch names it `{SHAPES[0]}`."
    else:
        assert failure.next_step == "Remove the argument, or install a torch that has it."


def test_a_program_may_fall_back_where_an_argument_is_missing(live: LiveWorker) -> None:
    report = live.analyse(
        """\
import torch
def f(x):
    return x.sin()
try:
    g = torch.compile(f, from_the_future=1)
except TypeError:
    g = torch.compile(f)
# fuselight: h(f32[4])
def h(x):
    return g(x)
""",
        "h",
    )
    assert report.failures == ()
    assert report.compiles


@pytest.mark.parametrize(("name", "kept"), [("backend:eager", True), ("backend:eager+dynamic", False)])
def test_a_configuration_that_makes_all_sizes_dynamic_replaces_those_of_the_source(
    name: str, *, kept: bool
) -> None:
    """Torch takes either and never both."""
    backends = Compiled(parse_configuration(name), find("cpu"))
    marks = {"dynamic_shapes": {"x": None}, "shapes_spec": {"x": None}}
    asked = _as_configured(backends, marks)
    assert {"dynamic_shapes", "shapes_spec"} & asked.keys() == (
        {"dynamic_shapes", "shapes_spec"} if kept else set()
    )
    assert asked.get("dynamic") is (None if kept else True)


_PRECOMPILED = {
    "a callable": """
    code, cache = torch.compiler.precompile(f, x, backend="eager")
    return torch.compiler.precompile.load(code, cache)(x)
""",
    "a module": """
    with torch.compiler.precompile.capture(f, artifact_path=CODE, cache_path=CACHE, backend="eager") as captured:
        return captured(x)
""",
}


@pytest.mark.skipif(not hasattr(torch.compiler, "precompile"), reason="torch 2.14 has the first precompile")
def test_what_precompile_captures_is_noted_on_its_line(live: LiveWorker, tmp_path: Path) -> None:
    form = "a callable" if callable(vars(torch.compiler)["precompile"]) else "a module"
    report = live.analyse(
        f"""\
import torch
CODE, CACHE = {str(tmp_path / "code.py")!r}, {str(tmp_path / "cache")!r}
def f(x):
    return x.sin()
# fuselight: g(f32[4])
@torch.compiler.disable
def g(x):{_PRECOMPILED[form]}""",
        "g",
    )
    assert report.failures == ()
    (note,) = [note for note in report.notes if note.kind == "precompile"]
    assert note.location is not None
    assert note.location.line == 8
    assert "its graph and kernels are not shown" in note.text


@pytest.mark.parametrize(("functions", "captures"), [({"capture": lambda: "code"}, 1), ({}, 0), (None, 0)])
def test_a_precompile_of_another_form_is_heard_or_left_alone(
    monkeypatch: pytest.MonkeyPatch, functions: dict[str, object] | None, captures: int
) -> None:
    """It is an object in 2.14, a module in 2.15, and in no release settled."""
    module = types.ModuleType("precompile")
    vars(module).update(functions or {})
    monkeypatch.setattr(
        torch.compiler, "precompile", module if functions is not None else None, raising=False
    )
    heard: list[int] = []
    with targets.heard_precompile(lambda: heard.append(1)):
        for name in functions or {}:
            assert getattr(module, name)() == "code"
    assert len(heard) == captures
    assert {name: getattr(module, name) for name in functions or {}} == (functions or {})


@pytest.mark.skipif(
    not hasattr(torch.compiler.config, "compile_on_one_rank"), reason="this torch has no compile_on_one_rank"
)
def test_code_for_any_rank_is_captured_and_its_setting_kept(live: LiveWorker) -> None:
    report = live.analyse("""\
import torch
torch.compiler.config.compile_on_one_rank = True
# fuselight: f(f32[4])
@torch.compile
def f(x):
    return x.sin() + torch.ones(4, device=x.device)
""")
    assert report.failures == ()
    assert len(report.compiles) == 1
    assert report.breaks == ()
    assert report.environment.config["compiler.compile_on_one_rank"] == "True"
