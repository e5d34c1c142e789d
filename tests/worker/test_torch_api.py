# ruff: noqa: E501 - SIGNATURES is a table
"""The contract with torch: each private name that is used exists and takes what it is given.

A failure here names what a new torch changed, before any feature breaks on it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from types import CodeType

import pytest
import torch

from fuselight import torch_api

pytestmark = pytest.mark.torch

SIGNATURES = (
    ("torch._dynamo.convert_frame", "_compile", ("code", "globals", "locals")),
    ("torch._dynamo.convert_frame", "exceeds_recompile_limit", ("cache_size", "compile_id")),
    ("torch._dynamo.convert_frame", "format_error_msg", ("exc", "code")),
    ("torch._dynamo.convert_frame", "has_tensor_in_frame", ()),  # a decorator hides `frame`
    ("torch._dynamo.exc", "RestartAnalysis.__init__", ("self", "args", "restart_reason")),
    ("torch._dynamo.guards", "CheckFunctionManager.__init__", ("self", "f_code", "output_graph")),
    ("torch._dynamo.output_graph", "OutputGraph.call_user_compiler", ("self", "gm")),
    ("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.log_graph_break", ("self", "code_options", "reason", "exc")),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv._set_replacement", ("self", "a", "tgt", "msg")),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.create_symbol", ("self", "val", "source", "dynamic_dim", "constraint_dim")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "parameters"), SIGNATURES, ids=[name for _, name, _ in SIGNATURES]
)
def test_a_replaced_name_takes_the_arguments_that_the_wrapper_reads(
    module: str, name: str, parameters: Sequence[str]
) -> None:
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
    assert tuple(inspect.signature(found).parameters)[: len(parameters)] == tuple(parameters)


def test_the_recompile_hook_is_where_convert_frame_looks_it_up() -> None:
    module = importlib.import_module("torch._dynamo.convert_frame")
    parameters = list(inspect.signature(module.get_and_maybe_log_recompilation_reasons).parameters)
    assert parameters[1:] == ["frame", "backend", "skip_logging"]


class Silent:
    """A listener that keeps what it is told about unavailable names and broken observers."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def broke(self, stage: str, error: Exception) -> None:
        self.told.append(f"{stage}: {error!r}")

    def unavailable(self, feature: str, why: str) -> None:
        self.told.append(f"{feature}: {why}")

    def compile_started(self, code: CodeType, f_locals: Mapping[str, object], compile_id: str) -> None:
        raise RuntimeError(f"observer of {code.co_name} {len(f_locals)} {compile_id}")

    def __getattr__(self, name: str) -> object:
        return lambda *_args, **_kwargs: None


def _hooked() -> list[object]:
    out: list[object] = []
    for module, name, _ in SIGNATURES:
        owner: object = importlib.import_module(module)
        for part in name.split("."):
            owner = inspect.getattr_static(owner, part)
        out.append(owner)
    return out


def test_everything_is_put_back_and_a_raising_observer_changes_nothing() -> None:
    before = _hooked()
    listener = Silent()
    torch._dynamo.reset()
    with torch_api.listen(listener):  # type: ignore[arg-type] - the rest is `__getattr__`
        during = _hooked()
        result = torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert result.tolist() == [2, 2]
    assert all(one is not two for one, two in zip(before, during, strict=True))
    assert all(one is two for one, two in zip(before, _hooked(), strict=True))
    assert [told.partition(" of ")[0] for told in listener.told] == ["compile: RuntimeError('observer"]


def test_it_is_put_back_when_the_block_raises() -> None:
    before = _hooked()
    with pytest.raises(KeyError), torch_api.listen(Silent()):  # type: ignore[arg-type] - as above
        raise KeyError
    assert all(one is two for one, two in zip(before, _hooked(), strict=True))


def test_a_name_that_a_torch_lacks_costs_one_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    shape_env = importlib.import_module("torch.fx.experimental.symbolic_shapes").ShapeEnv
    monkeypatch.delattr(shape_env, "_set_replacement")
    listener = Silent()
    with torch_api.listen(listener):  # type: ignore[arg-type] - as above
        pass
    assert listener.told == [f"specialisations: torch {torch.__version__} has no ShapeEnv._set_replacement"]


def test_the_registry_of_graph_breaks_is_there() -> None:
    ids = torch_api.gb_ids()
    assert ids["Failed to trace builtin operator"] == "GB0059"
    assert len(ids) > 300


def test_a_disabled_target_is_known_for_one() -> None:
    def plain(x: object) -> object:
        return x

    disabled = torch.compiler.disable(plain, reason="slow")
    assert torch_api.disabled_reason(plain) is None
    assert torch_api.disabled_reason(disabled) == "slow"
    assert torch_api.code_of(disabled) is plain.__code__
