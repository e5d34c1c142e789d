"""What is known of a tensor besides its values."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from fuselight.shared.report import TensorTraits

_MAX_VALUES = 256
"""Elements of a tensor whose values are recorded, if they are asked for."""
_DIGITS = 2


def traits_of(tensor: torch.Tensor, *, with_values: bool = False) -> TensorTraits | None:
    """The traits of a plain tensor; None for another."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return None
    name, device = str(tensor.dtype).removeprefix("torch."), tensor.device.type
    shape, stride, grad = tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad
    traits = TensorTraits(name, shape, stride, device, grad, 0.0, 1.0)
    if tensor.is_meta or tensor.numel() == 0 or tensor.is_quantized:
        return traits
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = tensor.detach().reshape(-1).cpu()
        values = (
            torch.view_as_real(values.to(torch.complex128)).reshape(-1)
            if values.is_complex()
            else values.double()
        )
        finite = values[values.isfinite()]
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
        is_whole = not (tensor.is_floating_point() or tensor.is_complex())
        counting = torch.equal(values, torch.arange(values.numel(), dtype=torch.float64))
        return TensorTraits(
            name,
            shape,
            stride,
            device,
            grad,
            low if is_whole else _rounded(low),
            high if is_whole else _rounded(high),
            nan=bool(values.isnan().any()),
            infinite=bool((values == math.inf).any()),
            negative_infinite=bool((values == -math.inf).any()),
            is_counting=values.numel() > 1 and counting,
            values=_text(tensor) if with_values and tensor.numel() <= _MAX_VALUES else "",
        )


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS - 1}e}")


def _text(tensor: torch.Tensor) -> str:
    """The elements as Python text, each as short as it can be."""
    number = torch.tensor(0.0, dtype=tensor.dtype)
    text = repr(_exact(tensor.detach().cpu().tolist(), number))
    for word in ("inf", "nan"):
        text = text.replace(f"-{word}", f"-float('{word}')").replace(f" {word}", f" float('{word}')")
        text = text.replace(f"[{word}", f"[float('{word}')")
    return text


def _exact(value: Any, _of: torch.Tensor) -> Any:
    """Floats of float32 with nine digits, which are exact."""
    if isinstance(value, list):
        return [_exact(item, _of) for item in value]
    is_short = isinstance(value, float) and _of.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return float(f"{value:.9g}") if is_short else value
