"""What the first layers of a module take: shapes, dtypes and bounds of its inputs, read from its source.

Invariant: nothing is run, and what the source does not say is not guessed: such a parameter has no entry. Sizes that no
layer decides (a batch, the length of a sequence, the size of an image) are small, and never 1, which torch.compile
treats as a constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fuselight_server.source import einops_patterns
from fuselight_server.source.expression_values import Layer, Object, Sequence
from fuselight_server.source.layer_flow import LayerFlow, Need

BATCH, LENGTH, SIDE = 2, 16, 32
"""Sizes where no layer decides."""
_DIGITS = 28
"""A side of an image with one channel: most are those of MNIST and its kin."""
_MAX_SIDE = 1024
_IMAGE_SIZES = ("image_size", "img_size", "resolution", "input_size", "size", "img_res", "crop_size")
_LENGTHS = (
    *("block_size", "max_len", "max_seq_len", "max_length", "context_length", "n_positions", "seq_len"),
    *("max_position_embeddings", "n_ctx", "sequence_length", "max_seq_length", "context_size"),
)


def inputs_of(owner: Object, method: str = "forward") -> dict[str, str]:
    """What each parameter of a method has to be, as in a directive: `f32[2, 3, 32, 32]`. Without the unknown ones."""
    function = owner.definition.method(method)
    if function is None:
        return {}
    names = [
        argument.arg
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    ][1:]
    flow = LayerFlow(owner, 0, {name: (name, False) for name in names})
    flow.body(function.body)
    sizes = _Sizes(owner)
    inputs = {}
    for name in names:
        need, dimensions = flow.needs.get(name), flow.dimensions.get(name)
        text = _text(need, dimensions, sizes) if need is not None else ""
        if text:
            inputs[name] = text
    return inputs


class _Sizes:
    """Sizes that the object and its configuration name."""

    def __init__(self, owner: Object) -> None:
        objects = [
            owner,
            *(attribute for attribute in owner.attributes.values() if isinstance(attribute, Object)),
        ]
        self._known = [instance.attributes for instance in objects] + [owner.arguments]

    def side(self, kernel: Any) -> int:
        """A side of an image that a kernel fits into."""
        known = self._first(_IMAGE_SIZES)
        side = known if known is not None and known <= _MAX_SIDE else SIDE
        return max(side, 2 * kernel) if isinstance(kernel, int) and side < kernel else side

    def length(self) -> int:
        """The length of a sequence."""
        known = self._first(_LENGTHS)
        return LENGTH if known is None else min(LENGTH, known)

    def _first(self, names: Iterable[str]) -> int | None:
        values = (attributes.get(name) for name in names for attributes in self._known)
        return next((value for value in values if type(value) is int and value > 1), None)


_SPATIAL = {"Conv1d": 1, "Conv2d": 2, "Conv3d": 3, "BatchNorm2d": 2, "BatchNorm3d": 3, "InstanceNorm1d": 1}
_SPATIAL |= {
    "GroupNorm": 2,
    "ConvTranspose1d": 1,
    "ConvTranspose2d": 2,
    "ConvTranspose3d": 3,
    "InstanceNorm2d": 2,
}
_FEATURES = {"Linear": 0, "BatchNorm1d": 0, "LazyLinear": 9}
"""Layers of the last dimension, and the position of its size."""
_SEQUENCES = {"LSTM": ("input_size",), "GRU": ("input_size",), "RNN": ("input_size",)}
_SEQUENCES |= {"LayerNorm": ("normalized_shape",), "RMSNorm": ("normalized_shape",)}
_SEQUENCES |= {"MultiheadAttention": ("embed_dim",), "TransformerEncoderLayer": ("d_model",)}
_SEQUENCES |= {"TransformerDecoderLayer": ("d_model",), "Transformer": ("d_model",)}


def _text(need: Need, dimensions: int | None, sizes: _Sizes) -> str:
    layer = need.layer
    if layer.kind in einops_patterns.LAYERS:
        shape = _pattern_shape(need, sizes)
        return f"f32{shape}" if shape else ""
    if layer.kind in {"Embedding", "EmbeddingBag"}:
        rows = layer.argument(0, "num_embeddings")
        shape = [sizes.length()] if dimensions == 1 else [BATCH, sizes.length()]
        return f"i64{shape} % {rows}" if type(rows) is int else ""
    shape = _shape(layer, dimensions, sizes, is_flat=need.is_flat)
    return f"f32{shape}" if shape and all(type(size) is int and size > 0 for size in shape) else ""


def _pattern_shape(need: Need, sizes: _Sizes) -> list[int]:
    """The shape of an input that a pattern of einops takes first."""
    following = _shape(need.then, None, sizes, is_flat=False) if need.then is not None else []
    last = following[-1] if following and need.then is not None and need.then.kind not in _SPATIAL else None
    return einops_patterns.input_shape(
        need.layer.argument(0, "pattern"),
        need.layer.keywords,
        last,
        batch=BATCH,
        length=sizes.length(),
        side=sizes.side,
    )


def _shape(layer: Layer, dimensions: int | None, sizes: _Sizes, *, is_flat: bool) -> list[Any]:
    """The shape of an input that a layer accepts; empty if its constructor does not show one.

    `dimensions`: the rank that the rest of the model requires, if it shows that; `is_flat`: the input is flattened
    first. One channel and an image suggest digits, which have 28 x 28 pixels: models for them often end in a linear
    layer that fits no other size.
    """
    if layer.kind in _SPATIAL and not is_flat:
        position = 1 if layer.kind == "GroupNorm" else 0
        channels = layer.argument(position, "in_channels", "num_features", "num_channels")
        spatial = _SPATIAL[layer.kind]
        kernel = layer.argument(2, "kernel_size") if "Conv" in layer.kind else None
        kernel = kernel.parts[0] if isinstance(kernel, Sequence) and kernel.parts else kernel
        depth = [8] if spatial == len("xyz") else []
        sides = [sizes.side(kernel)] * (spatial - len(depth))
        if channels == 1 and spatial == len("hw") and sides[0] == SIDE:
            sides = [_DIGITS] * spatial
        return [BATCH, channels, *depth, *sides]
    if layer.kind == "TransformerEncoder":
        layer = layer.argument(0, "encoder_layer")
        if not isinstance(layer, Layer):
            return []
    if layer.kind in _SEQUENCES:
        size = layer.argument(0, *_SEQUENCES[layer.kind])
        size = size.parts[-1] if isinstance(size, Sequence) and size.parts else size
        return _padded(size, dimensions or len("btc"), sizes)
    if layer.kind in _FEATURES:
        size = layer.argument(_FEATURES[layer.kind], "in_features", "num_features")
        if is_flat and dimensions is not None:
            return [BATCH, size, *[1] * max(dimensions - 2, 0)]
        return _padded(size, dimensions or len("bc"), sizes)
    return []


def _padded(size: Any, dimensions: int, sizes: _Sizes) -> list[Any]:
    """A shape with `dimensions` dimensions, the last of which is `size`."""
    before = [BATCH, *[sizes.length()] * max(dimensions - 2, 0)]
    return [*before[: max(dimensions - 1, 0)], size]
