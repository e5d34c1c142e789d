# ruff: noqa: E501 - a table
"""Real model files of transformers, torchvision, timm and torch's own tests, each as a file of the user's own.

Invariant: the text of a source is the library's file with absolute imports, plus a prefix with the imports that the
edits need and a class `LiveCorpusModel` at the end with its inputs. Of torch's tests, which need a test framework, it
has the model and the classes that this uses. No weights are downloaded.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.architectures import MODELS

_RELATIVE = re.compile(r"^(\s*from )(\.+)([\w.]*)( import )", re.MULTILINE)
PREFIX = """\
import copy, logging, random, time, warnings
import numpy as np
import torch
from torch import nn
live_logger = logging.getLogger("live_corpus")
@torch.compiler.disable
def live_disabled(tensor):
    return tensor + 1
"""
_MODEL = """

class LiveCorpusModel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        {imports}
        self.model = {model}

    def forward(self, **inputs):
        return self.model(**inputs)


def example_inputs():
    torch.manual_seed(0)
    return [{inputs}, {inputs}]
"""
_TEXT = '{"input_ids": torch.randint(3, 100, (2, 8))}'
_INPUTS = {
    "text": _TEXT,
    "pair": '{"input_ids": torch.randint(3, 100, (2, 8)), "decoder_input_ids": torch.randint(3, 100, (2, 8))}',
    "image": '{"pixel_values": torch.randn(2, 3, 32, 32)}',
    "speech": '{"input_values": torch.randn(2, 4000)}',
    "x": '{"x": torch.randn(2, 3, 64, 64)}',
}
_TORCHVISION = {
    "resnet": "resnet18()", "mobilenetv2": "mobilenet_v2()", "mobilenetv3": "mobilenet_v3_small()",
    "densenet": "DenseNet(8, (2, 2), 16)", "shufflenetv2": "shufflenet_v2_x0_5()", "squeezenet": "squeezenet1_1()",
    "regnet": "regnet_y_400mf()", "efficientnet": "efficientnet_b0()", "convnext": "convnext_tiny()",
    "mnasnet": "mnasnet0_5()", "googlenet": "GoogLeNet(aux_logits=False, init_weights=False)",
    "swin_transformer": "swin_t()", "vision_transformer": "VisionTransformer(64, 16, 2, 2, 32, 64)",
}  # fmt: skip
_TIMM = {
    "resnet": "resnet18()", "vision_transformer": "vit_tiny_patch16_224(img_size=64)",
    "mlp_mixer": "mixer_s32_224(img_size=64)", "convnext": "convnext_atto()", "levit": "levit_128s(img_size=64)",
    "metaformer": "poolformer_s12()", "xcit": "xcit_nano_12_p16_224(img_size=64)", "regnet": "regnetx_002()",
    "cait": "cait_xxs24_224(img_size=64)", "pvt_v2": "pvt_v2_b0()", "edgenext": "edgenext_xx_small()",
    "ghostnet": "ghostnet_050()", "swin_transformer": "swin_tiny_patch4_window7_224(img_size=64, window_size=4)",
    "deit": "deit_tiny_patch16_224(img_size=64)", "coat": "coat_tiny(img_size=64)", "beit": "beit_base_patch16_224(img_size=64, depth=2)",
    "mobilevit": "mobilevit_xxs()", "efficientformer": "efficientformer_l1()", "repvgg": "repvgg_a0()", "res2net": "res2net50_26w_4s()",
}  # fmt: skip
"""Names of files, and the expression that makes a model in each."""
_TORCH = {
    "common_dist_composable": ("CompositeParamModel('cpu')", '{"x": torch.randn(2, 100)}'),
    "common_dtensor": ("Transformer(ModelArgs())", '{"tokens": torch.randint(8, (2, 8))}'),
    "common_pruning": ("Conv2dPoolFlattenFunctional()", '{"x": torch.randn(2, 1, 16, 16)}'),
    "common_quantization": ("ModelMultipleOps()", '{"x": torch.randn(2, 3, 16, 16)}'),
}
"""Files of `torch.testing._internal`: a model and its inputs."""
_TORCH_IMPORTS = """\
from __future__ import annotations
from dataclasses import dataclass
import torch.nn.functional as F
from torch.distributed.tensor import DTensor
"""
"""What the classes of those files use."""


@dataclass(frozen=True)
class Source:
    """One model file."""

    name: str
    """`transformers/bert`."""
    held_out: bool
    """Whether it is in the half that was never looked at while rules were written."""

    def text(self) -> str:
        """The file's text. Raises ImportError or OSError where the library, or this file of it, is not installed."""
        library, _, name = self.name.partition("/")
        if library == "transformers":
            return _transformers(name)
        if library == "torch":
            return _torch_test(name)
        expression = (_TORCHVISION if library == "torchvision" else _TIMM)[name]
        text = _library_text(f"{library}.models.{name}")
        text = text.replace("@register_model()\n", "") if library == "torchvision" else text
        return text + _MODEL.format(imports="pass", model=expression, inputs=_INPUTS["x"])


def sources() -> tuple[Source, ...]:
    """All sources. Of each library, in the order of their names, every second one is held out."""
    names = {
        "transformers": sorted(MODELS),
        "torchvision": sorted(_TORCHVISION),
        "timm": sorted(_TIMM),
        "torch": sorted(_TORCH),
    }
    return tuple(
        Source(f"{library}/{name}", held_out=index % 2 == 1)
        for library, ones in names.items()
        for index, name in enumerate(ones)
    )


def _transformers(name: str) -> str:
    import transformers  # noqa: PLC0415 - seconds

    config, model, sizes, kind = MODELS[name]
    module = getattr(transformers, model).__module__
    return _library_text(module) + _MODEL.format(
        imports=f"import transformers; config = transformers.{config}(**{sizes!r})",
        model=f"{model}(config)",
        inputs=_INPUTS[kind],
    )


def _torch_test(name: str) -> str:
    expression, inputs = _TORCH[name]
    root = Path(torch.__file__).parent / "testing" / "_internal"
    text = next(root.rglob(f"{name}.py")).read_text(encoding="utf-8")
    classes = {
        statement.name: statement
        for statement in ast.parse(text).body
        if isinstance(statement, ast.ClassDef) and _is_model(statement)
    }
    wanted: list[ast.AST] = [ast.parse(expression)]
    texts: set[str] = set()
    while wanted:
        used = {
            node.id for node in ast.walk(wanted.pop()) if isinstance(node, ast.Name)
        } & classes.keys() - texts
        texts |= used
        wanted += [classes[word] for word in used]
    lines = text.split("\n")
    parts = [
        "\n".join(
            lines[min([owner.lineno, *(at.lineno for at in owner.decorator_list)]) - 1 : owner.end_lineno]
        )
        for owner in classes.values()
        if owner.name in texts
    ]
    model = _MODEL.format(imports="pass", model=expression, inputs=inputs)
    return "\n\n\n".join((_TORCH_IMPORTS + PREFIX, *parts)) + model


def _is_model(node: ast.ClassDef) -> bool:
    """Whether a class is a module or the settings of one: no test, and nothing of torch.distributed."""
    return bool(node.decorator_list) or any("Module" in ast.unparse(base) for base in node.bases)


def _library_text(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"{module} is not installed")
    parts = module.split(".")

    def absolute(match: re.Match[str]) -> str:
        package = ".".join(parts[: len(parts) - len(match[2])])
        return f"{match[1]}{package}{'.' if match[3] else ''}{match[3]}{match[4]}"

    text = _RELATIVE.sub(absolute, Path(spec.origin).read_text(encoding="utf-8"))
    imports = (
        statement for statement in ast.parse(text).body if isinstance(statement, (ast.Import, ast.ImportFrom))
    )
    lines = text.splitlines(keepends=True)
    at = (
        next((imported.lineno for imported in imports if getattr(imported, "module", "") != "__future__"), 1)
        - 1
    )
    return "".join((*lines[:at], PREFIX, *lines[at:]))
