"""The catalog of knobs: settings of a compile that a search may change, and where each of them applies.

Invariant: a knob changes a configuration only through the notation of `fuselight.shared.configurations`, so that
everything that a search tries can also be named by a user and measured by a benchmark. Standard library only.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from fuselight.shared.codec import read_table
from fuselight.shared.configurations import Configuration, parse_configuration, read_configuration
from fuselight.shared.report import Work
from fuselight.shared.report.tuned import KnobBound, Numerics, Skip

GPU, CPU = "cuda", "cpu"
_ALLOWED = {
    Numerics.EXACT: frozenset({Numerics.EXACT}),
    Numerics.TF32: frozenset({Numerics.EXACT, Numerics.TF32}),
    Numerics.REDUCED: frozenset(Numerics),
}


class Trait(str, enum.Enum):
    """A property of a target or a machine without which a knob changes nothing, beyond what a profile shows."""

    FLOAT32 = "float32"
    """It computes with float32 tensors."""
    BLOCKS = "blocks"
    """The model has repeated blocks."""
    FIXES = "fixes"
    """Verified fixes of its breaks or recompilations are known."""
    RECOMPILATIONS = "recompilations"
    """Its calls recompiled."""
    SYMBOLIC_SIZES = "symbolic_sizes"
    """A graph has symbolic sizes."""
    AVX512 = "avx512"
    """The processor has vectors of 512 bits."""
    CONVOLUTIONS = "convolutions"
    """It computes convolutions."""
    ATTENTION = "attention"
    """It computes scaled_dot_product_attention."""
    HOPPER = "hopper"
    """The GPU's compute capability is 9.0 or higher."""


_LACKS = {
    Trait.FLOAT32: "it computes nothing with float32 tensors",
    Trait.BLOCKS: "the model has no repeated blocks",
    Trait.FIXES: "no verified fix is known",
    Trait.RECOMPILATIONS: "nothing was recompiled",
    Trait.SYMBOLIC_SIZES: "no graph has dynamic sizes",
    Trait.AVX512: "the processor has no vectors of 512 bits",
    Trait.CONVOLUTIONS: "no convolution",
    Trait.ATTENTION: "no attention kernel",
    Trait.HOPPER: "the GPU's compute capability is below 9.0",
}


@dataclass(frozen=True)
class KnobSetting:
    """One entry of the catalog."""

    name: str
    parts: tuple[str, ...]
    """Pieces of notation that it adds: `triton.cudagraphs=True`, `channels_last`."""
    bound: KnobBound
    about: str
    """What it does, one sentence for a reader who does not know compilers."""
    order: int
    """Position among the knobs: structure below 100, then kernel tuning. Unique."""
    share: float
    """The part of its bound that it typically removes, from measurements of other models. Decides the order of trials
    only: whether a knob is tried depends on the whole bound."""
    works: tuple[Work, ...] = tuple(Work)
    devices: tuple[str, ...] = (GPU, CPU)
    numerics: Numerics = Numerics.EXACT
    """The least setting of `--numerics` that allows it."""
    assumes_fixed_modules: bool = False
    """Whether its results hold only while no module changes after the first call: `--fixed-modules` allows it."""
    structural: bool = False
    """Whether it changes what is compiled or how kernels are launched, rather than how kernels are tuned."""
    autotunes: bool = False
    """Whether its compile times kernels on the device, so that nothing else may be timed meanwhile."""
    compile_factor: float = 1.0
    """Duration of its compile, times that of `default`."""
    changes_templates: bool = False
    """Whether Inductor writes it into the source of each template of a multiplication, by which it finds timings."""
    group: str = ""
    """Knobs of one group exclude each other."""
    excludes: tuple[str, ...] = ()
    """Names of knobs that it cannot be combined with and is no alternative to, as one of its group is: each call of a
    compiled block replays the same CUDA graph, which overwrites the results of the call before."""
    needs: tuple[Trait, ...] = ()
    requires: tuple[str, ...] = ()
    """Names of knobs without which it has no effect."""

    @property
    def times_multiplications(self) -> bool:
        """Whether what its compile times is kept for later candidates with the same multiplications."""
        return "max_autotune_gemm=True" in self.parts

    @property
    def tunes_launches(self) -> bool:
        """Whether its compile tunes generated kernels, which is kept for later candidates with the same kernels."""
        return parse_configuration(configuration_of([self])).tunes_launches

    @property
    def keeps_launches(self) -> bool:
        """Whether it leaves most generated kernels as they are, so that what they are launched with is found.

        Those next to what it changes may have other sources: they are tuned again.
        """
        others = self.bound in {KnobBound.IDLE, KnobBound.ATTENTION} or self.times_multiplications
        return others and not self.changes_templates

    @property
    def keeps_multiplications(self) -> bool:
        """Whether it changes neither operands nor templates of multiplications, so that their timings are found."""
        return self.bound in {KnobBound.IDLE, KnobBound.GENERATED} and not self.changes_templates


@dataclass(frozen=True)
class Unsuitable:
    """Why a knob is not tried, whatever it could gain."""

    skip: Skip
    detail: str


KNOBS = read_table(tuple[KnobSetting, ...], __file__)
"""In the order of `order`."""

BY_NAME = {knob.name: knob for knob in KNOBS}


def configuration_of(knobs: Iterable[KnobSetting], base: str = "default") -> str:
    """The notation of `base` with these knobs: the same text for the same set, whatever its order.

    A part that `base` already has is not repeated. Raises ConfigurationError if `base` cannot be read.
    """
    present = parse_configuration(base)
    ordered = sorted(set(knobs), key=lambda knob: knob.order)
    parts = dict.fromkeys(part for knob in ordered for part in knob.parts)
    return "+".join([base, *(part for part in parts if _with(base, part, present.name) != present)])


def _with(base: str, part: str, name: str) -> Configuration:
    return replace(read_configuration(f"{base}+{part}"), name=name)


def are_rivals(setting: KnobSetting, other: KnobSetting) -> bool:
    """Whether two different knobs cannot be combined, nor replace each other as those of a group do."""
    return other.name in setting.excludes or setting.name in other.excludes


def are_exclusive(setting: KnobSetting, other: KnobSetting) -> bool:
    """Whether two different knobs cannot be combined."""
    return (bool(setting.group) and setting.group == other.group) or are_rivals(setting, other)


def unsuitable(
    knob: KnobSetting,
    *,
    work: Work,
    device: str,
    numerics: Numerics,
    fixed_modules: bool,
    options: Mapping[str, Any],
    has: AbstractSet[Trait],
) -> Unsuitable | None:
    """Why a knob cannot change a target; None if it can.

    `device` is `cuda` or `cpu`; `fixed_modules` whether modules may be taken as unchanging; `options` are Inductor's,
    with the values in force; `has` are the traits of the target and its machine. A knob of which `default` already has
    every value changes nothing.
    """
    if (refused := _refused(knob, numerics, fixed_modules=fixed_modules)) is not None:
        return refused
    if work not in knob.works:
        return Unsuitable(Skip.WORK, f"not for {work.value.replace('_', ' ')}")
    if device not in knob.devices:
        return Unsuitable(Skip.DEVICE, f"for {'a GPU' if GPU in knob.devices else 'a CPU'} only")
    wanted = parse_configuration(configuration_of([knob])).options
    unknown = [name for name in wanted if name not in options]
    if unknown:
        return Unsuitable(Skip.ABSENT, f"this torch has no option `{unknown[0]}`")
    if wanted and all(options[name] == value for name, value in wanted.items()):
        return Unsuitable(Skip.ABSENT, "`default` already does this")
    lacking = sorted(set(knob.needs) - set(has))
    return Unsuitable(Skip.ABSENT, _LACKS[lacking[0]]) if lacking else None


def _refused(knob: KnobSetting, numerics: Numerics, *, fixed_modules: bool) -> Unsuitable | None:
    """Why the user has not allowed a knob; None if it is allowed."""
    if knob.numerics not in _ALLOWED[numerics]:
        return Unsuitable(
            Skip.NUMERICS,
            f"it changes the arithmetic: `fuselight.tune.numerics` allows it (`{knob.numerics.value}`)",
        )
    if knob.assumes_fixed_modules and not fixed_modules:
        return Unsuitable(
            Skip.ASSUMPTION,
            "it assumes that no module changes after the first call: `fuselight.tune.fixedModules` allows it",
        )
    return None
