"""What a table of a suite says of one model."""

from __future__ import annotations

from dataclasses import dataclass, field


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
