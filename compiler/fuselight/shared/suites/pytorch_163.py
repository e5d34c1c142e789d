"""The models that torch.compile was introduced with, in `pytorch_163.json`: names and batch sizes of PyTorch 2.0.

Hugging Face, 46: names of benchmarks/dynamo/huggingface_models_list.txt, which has 53. PyTorch 2.0 skipped six
(Reformer, BlenderbotForConditionalGeneration, and both each of GPT-Neo and GPT-J), and its runner could not make
BigBird. Batch sizes are those of the list, divided as its runner did; lengths are those of the runner. Real sizes are
the defaults of the configuration, or those of the checkpoint that the runner named. The runner gives
`decoder_input_ids` to some classes; the others make them of the labels. Roberta's runs have padding only: more tokens
have no position.

timm, 61: names of benchmarks/dynamo/timm_models_list.txt. Batch sizes are those of the list, divided as PyTorch's
runner did; images have the size that timm's configuration of the model names. The tiny form keeps the kinds of blocks:
fewer of them where a model has many or wide ones, small images where it takes any.

TorchBench, 56: those of its folder `models` that PyTorch could train, in alphabetical order. PyTorch has no list of
them: its runner took every model that TorchBench had at the end of 2022 and left out those that
`benchmarks/dynamo/torchbench.py` skips in training. That file's `maml` is a regular expression and leaves out
`maml_omniglot` and `functorch_maml_omniglot` too; the two quantized models did not run on a GPU. `hf_Bert_large`,
`hf_T5_base` and `resnet152` came with 2023: PyTorch's dashboards then count 59. Batch sizes are TorchBench's for
training, as on these dashboards; models of Hugging Face get tokens only, in both halves of an encoder and decoder. Tiny
inputs have 16 tokens, or the 64 that blocks of BigBird and positions of Reformer need.

TorchBench's sources are copies of research repositories; a row uses the package that ships the same model, and says how
it differs. A model that no package ships is absent: an implementation by somebody else would not be that model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuselight.shared.codec import read_table


@dataclass(frozen=True)
class Form:
    """One size of a model, as Python expressions."""

    model: str
    """What makes the model, with the names that `SuiteModel.imports` imports."""
    inputs: str
    """The arguments of its call, in the notation of a directive (docs/inputs.md)."""
    batch: int
    """Batch size of the inputs."""


@dataclass(frozen=True)
class SuiteModel:
    """One model of a suite, in its sizes; without sizes where no package ships it."""

    name: str
    """As PyTorch's lists name it."""
    group: str
    """`huggingface`, `timm` or `torchbench`."""
    packages: tuple[str, ...] = ()
    """Packages that ship it, as pip names them."""
    imports: str = ""
    """Import statement."""
    forms: dict[str, Form] = field(default_factory=dict)
    """By size: `tiny` and `real`."""
    absent: str = ""
    """Why there is no such model; empty if there is one."""
    note: str = ""
    """How it differs from the model that PyTorch ran; empty if it does not."""


def models() -> tuple[SuiteModel, ...]:
    """Return all 163."""
    return read_table(tuple[SuiteModel, ...], __file__)
