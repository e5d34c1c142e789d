"""Plain arguments of torch.compile for a tuned model, without Fuselight in the program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fuselight
from fuselight.replay.arguments import TunedOptionsError
from fuselight.shared.report import Numerics, Preparation, TunedResult
from tests.support.replays import OPTIONS, kept, model_and_input, tuned_result

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def result() -> TunedResult:
    return tuned_result()


def test_plain_arguments_for_torch_compile(
    result: TunedResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, _ = model_and_input()
    with pytest.raises(TunedOptionsError, match=r"there is no fuselight-tuned\.json"):
        fuselight.tuned_options(model)
    kept(
        tmp_path,
        replace(result, dynamic=False),
        replace(result, target="Other", options={"max_fusion_size": 1}),
    )
    assert fuselight.tuned_options(model) == {"options": OPTIONS, "dynamic": False}
    assert fuselight.tuned_options(target="Other") == {"options": {"max_fusion_size": 1}}
    with pytest.raises(TunedOptionsError, match="Net, Other: name one"):
        fuselight.tuned_options()
    with pytest.raises(TunedOptionsError, match="no result for this target and work"):
        fuselight.tuned_options(model, train=True)
    kept(tmp_path, replace(result, options={"triton.multi_kernel": 1}))  # of an older search
    assert fuselight.tuned_options(model)["options"]["use_static_cuda_launcher"] is False
    kept(tmp_path, replace(result, preparation=Preparation(channels_last=True)))
    with pytest.raises(TunedOptionsError, match=r"memory_format=torch\.channels_last"):
        fuselight.tuned_options(model)
    assert fuselight.tuned_options(model, prepared=True) == {"options": OPTIONS}


def test_plain_arguments_are_of_the_model_itself(
    result: TunedResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept(tmp_path, result)
    model, _ = model_and_input()
    with pytest.raises(
        TunedOptionsError, match=r"no result of `Linear` for this work, but of `Net`\. If one of them"
    ):
        fuselight.tuned_options(torch.nn.Linear(1, 1))
    assert fuselight.tuned_options(torch.nn.Linear(1, 1), target="Net") == {"options": OPTIONS}
    assert fuselight.tuned_options() == {"options": OPTIONS}
    assert fuselight.tuned_options(torch.compile(model)) == {"options": OPTIONS}
    kept(tmp_path, replace(result, target="a.step", options={"max_fusion_size": 2}))

    def step() -> None:
        """Stands for the program's."""

    assert fuselight.tuned_options(step) == {"options": {"max_fusion_size": 2}}
    lower = Preparation(precision="bf16")
    kept(tmp_path, replace(result, preparation=lower, numerics=Numerics.REDUCED, when="2026-06-01T00:00:00Z"))
    assert fuselight.tuned_options(model) == {"options": OPTIONS}, "the exact one"
