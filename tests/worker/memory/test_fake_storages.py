"""Fake tensors have the storages of real ones: copies of modules, losses, and what recurrent layers keep on a GPU."""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.fake_storages import keep_real_sizes
from fuselight.adapters.torch_api.recurrent_memory import recurrent_forms
from fuselight.adapters.torch_api.storages import StorageTracker, storage_key
from fuselight.adapters.torch_api.untraced_libraries import untraced_libraries
from fuselight.adapters.virtual_gpu.attention import choose
from fuselight.shared.devices import find

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor"),
]


@pytest.fixture(autouse=True)
def fakes() -> Iterator[None]:
    with settings.fake_tensors():
        yield


def new_sizes(layer: nn.Module, *inputs: torch.Tensor) -> list[int]:
    """Bytes of what a call makes beside its parameters, the largest first."""
    tracker: StorageTracker[str] = StorageTracker(lambda: None, keep=keep_real_sizes)
    tracker.note([*layer.parameters(), *inputs], "before")
    with tracker:
        layer(*inputs)
    return sorted((storage.bytes for storage in tracker.every if not storage.is_before), reverse=True)


def test_a_view_of_a_copied_parameter_has_its_storage() -> None:
    encoder = nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False)
    copies = [copy.deepcopy(nn.Linear(4, 8)).weight, encoder.get_parameter("layers.1.linear1.weight")]
    for parameter in copies:
        assert storage_key(parameter) == storage_key(parameter.t()) == storage_key(parameter.detach())


def layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def test_an_averaged_copy_makes_what_its_original_makes() -> None:
    model, x = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), torch.randn(8, 16)
    assert new_sizes(copy.deepcopy(model), x) == new_sizes(model, x)


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.smooth_l1_loss])
def test_a_mean_loss_keeps_the_loss_of_each_element(loss: object) -> None:
    class Loss(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return loss(x, y)  # type: ignore[operator, no-any-return]

    assert new_sizes(Loss(), torch.randn(64, 100), torch.randn(64, 100)) == [64 * 100 * 4]


@pytest.mark.parametrize(
    ("kind", "options", "kept"),
    [  # what an H200's allocator had (torch 2.11), of 64 steps, 16 sequences, 64 inputs and 128 states
        (nn.LSTM, {}, 2_621_696),
        (nn.LSTM, {"num_layers": 2, "bidirectional": True}, 11_534_592),
        (nn.GRU, {}, 3_145_984),
        (nn.GRU, {"num_layers": 3}, 10_486_016),
        (nn.RNN, {"num_layers": 2}, 1_573_120),
        (nn.RNN, {"bidirectional": True, "nonlinearity": "relu"}, 1_048_832),
    ],
)
def test_recurrent_layers_keep_what_cudnn_keeps(
    kind: type[nn.RNNBase], options: dict[str, object], kept: int
) -> None:
    known: list[bool] = []
    with recurrent_forms(known.append):
        layer = kind(64, 128, **options)  # type: ignore[arg-type]
        assert kept in new_sizes(layer, torch.randn(64, 16, 64))
        assert kept not in new_sizes(layer.eval(), torch.randn(64, 16, 64))
        output, _ = layer.train()(torch.randn(64, 16, 64))
        output.sum().backward()
    assert known == [True] * 3
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.shape == parameter.shape
    assert (
        len({storage_key(parameter.grad) for parameter in layer.parameters() if parameter.grad is not None})
        == 1
    )


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_packed_sequences_and_projections_are_not_known() -> None:
    known: list[bool] = []
    with recurrent_forms(known.append):
        nn.LSTM(8, 16, proj_size=4)(torch.randn(3, 2, 8))
        nn.GRU(8, 16)(torch.randn(3, 2, 8))
    assert known == [False, True]


def test_outside_recurrent_layers_are_torchs_own() -> None:
    with recurrent_forms(lambda _: None):
        inside = torch._VF.lstm
    assert torch._VF.lstm is not inside


def test_a_library_takes_fake_tensors_for_tensors_with_data(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "transformers.utils.import_utils"
    library = types.ModuleType(name)
    monkeypatch.setitem(vars(library), "is_fake_tensor", lambda _tensor: True)
    monkeypatch.setitem(sys.modules, name, library)
    with untraced_libraries():
        assert not vars(library)["is_fake_tensor"](torch.zeros(1))
    assert vars(library)["is_fake_tensor"](torch.zeros(1))
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # of a release without the function
    with untraced_libraries():
        assert not hasattr(sys.modules[name], "is_fake_tensor")


def test_cudnn_is_not_chosen_for_a_bias_that_is_learned() -> None:
    query, bias = (torch.zeros(2, 4, 64, size, dtype=torch.bfloat16) for size in (32, 64))
    chosen = [
        choose(find("h200"), query, query, query, mask, 0.0, is_causal=False, enable_gqa=False, training=True)
        for mask in (bias, bias.clone().requires_grad_())
    ]
    assert chosen == ["cudnn", "efficient"]
