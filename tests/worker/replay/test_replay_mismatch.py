"""What a replay names as the cause where no tuned result is for a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.replay import backend
from fuselight.shared.report import Numerics, Preparation, TunedResult
from tests.support.replays import MODEL, Chosen, choosing, kept, model_and_input, tuned_result

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def result() -> TunedResult:
    return tuned_result()


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Chosen]:
    yield from choosing(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"fixes": ("Use torch.where", "Remove print")},
            (
                "Net was tuned for f32[4, 8]: likely causes, in this order: (1) the source lacks the fixes that it was "
                "tuned with (Use torch.where; Remove print): `fuselight fix model.py --target Net --write`; (2) the "
                "code or the shapes have changed. Tune again: `fuselight tune model.py --target Net`"
            ),
        ),
        (
            {"dynamic": True},
            "(1) it was tuned with dynamic=True: pass torch.compile(..., dynamic=True); (2) the code",
        ),
        ({}, "model.py Net was tuned for f32[4, 8]: the code or the shapes have changed. Tune again: `"),
        (
            {"blocks": ("a", "b")},
            "(2) the whole is compiled instead of its blocks (model.get_submodule(name)",
        ),
        ({"numerics": Numerics.TF32}, "`fuselight tune model.py --target Net --numerics tf32`"),
    ],
)
def test_the_likely_causes_of_another_graph_are_named(
    result: TunedResult, chosen: Chosen, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], words: str
) -> None:
    kept(Path(), replace(result, **changes))
    model, _ = model_and_input()
    with torch.no_grad():
        for rows in (5, 6):
            torch._dynamo.reset()
            torch.compile(model, backend=backend.replay)(torch.ones(rows, 8))
    assert chosen.calls == [(Preparation(), None, {})] * 2
    (message,) = [record.getMessage() for record in caplog.records if record.name == "fuselight"]
    assert "is for this graph (3 operators; f32[5, 8]); model.py Net" in message
    assert words in message


@pytest.mark.usefixtures("chosen")
def test_symbolic_sizes_and_the_gradients_of_parameters_are_causes(
    result: TunedResult, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path, replace(result, target="Other", graphs=()), result)
    model, x = model_and_input()
    with torch.no_grad():
        torch.compile(model, backend=backend.replay, dynamic=True)(x)
        assert (
            "(1) sizes are dynamic here (dynamic=True, or calls with different sizes), and were"
            in caplog.text
        )
        torch._dynamo.reset()
        caplog.clear()
        torch.compile(model.requires_grad_(requires_grad=False), backend=backend.replay)(x)
    assert (
        "Net was tuned for parameters with requires_grad=True, here it is False (model.requires_grad_(True)"
        in (caplog.text)
    )
    assert "have changed" not in caplog.text


@pytest.mark.usefixtures("chosen")
def test_the_result_of_the_file_with_the_code_is_compared(
    result: TunedResult, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = replace(result, file=Path(__file__).name, graphs=(), fixes=("Use torch.where",))
    kept(tmp_path, here, result)
    with torch.no_grad():
        torch.compile(lambda x: x.exp(), backend=backend.replay)(torch.ones(4, 8))
    assert (
        "test_replay_mismatch.py Net: likely causes, in this order: (1) the source lacks the fixes"
        in caplog.text
    )


@pytest.mark.usefixtures("chosen")
def test_changed_code_of_the_tuned_shapes_is_told_apart_from_shapes(
    result: TunedResult, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path, result, replace(result, target="Other", graphs=(), dynamic=True))
    model, x = model_and_input(MODEL.replace("* 2", "* 3"))
    with torch.no_grad():
        torch.compile(model, backend=backend.replay)(x)
    assert (
        "model.py Net was tuned for f32[4, 8]: the code, or the size, dtype or requires_grad of a parameter, has"
        in caplog.text
    )
