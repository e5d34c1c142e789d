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

from fuselight.shared.configurations import Configuration, parse_configuration, read_configuration
from fuselight.shared.report import Work
from fuselight.shared.report.tuned import KnobBound, Numerics, Skip

EVERY_WORK = frozenset(Work)
_INFERENCE = frozenset({Work.INFERENCE})
_STEP = frozenset({Work.TRAINING_STEP})
GPU, CPU = "cuda", "cpu"
_GPU, _CPU = frozenset({GPU}), frozenset({CPU})
_EITHER = _GPU | _CPU
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
    Trait.SYMBOLIC_SIZES: "no graph has symbolic sizes",
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
    works: frozenset[Work] = EVERY_WORK
    devices: frozenset[str] = _EITHER
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
    """Names of knobs that it cannot be combined with and is no alternative to, as one of its group is."""
    needs: frozenset[Trait] = frozenset()
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


KNOBS: tuple[KnobSetting, ...] = (
    KnobSetting(
        "fixes",
        ("fixes",),
        KnobBound.BREAKS,
        "Apply verified fixes that remove graph breaks and recompilations.",
        order=10,
        share=0.8,
        structural=True,
        needs=frozenset({Trait.FIXES}),
    ),
    KnobSetting(
        "static_sizes",
        ("static",),
        KnobBound.CALL,
        "Compile for these sizes only, instead of one compile for all sizes.",
        order=14,
        share=0.05,
        structural=True,
        group="sizes",
        needs=frozenset({Trait.SYMBOLIC_SIZES}),
    ),
    KnobSetting(
        "dynamic_sizes",
        ("dynamic",),
        KnobBound.BREAKS,
        "Compile once for all sizes instead of once for each size.",
        order=15,
        share=0.3,
        structural=True,
        group="sizes",
        needs=frozenset({Trait.RECOMPILATIONS}),
    ),
    KnobSetting(
        "cuda_graphs",
        ("triton.cudagraphs=True",),
        KnobBound.IDLE,
        "Record the kernel launches of a call once and replay them together.",
        order=20,
        share=0.9,
        devices=_GPU,
        structural=True,
        group="launches",
    ),
    KnobSetting(
        "cpp_wrapper",
        ("cpp_wrapper=True",),
        KnobBound.IDLE,
        "Launch kernels from C++ instead of Python.",
        order=24,
        share=0.4,
        structural=True,
        compile_factor=2.0,
        group="launches",
        changes_templates=True,
    ),
    KnobSetting(
        "freezing",
        ("freezing=True",),
        KnobBound.KERNELS,
        "Treat the weights as constants: precompute what depends on them alone, and store them in the best layout.",
        order=30,
        share=0.05,
        works=_INFERENCE,
        structural=True,
        compile_factor=1.2,
    ),
    KnobSetting(
        "fixed_modules",
        ("fixed_modules",),
        KnobBound.CALL,
        "Check before a call its inputs only, not every module of the model.",
        order=32,
        share=0.05,
        works=_INFERENCE,
        assumes_fixed_modules=True,
        structural=True,
    ),
    KnobSetting(
        "channels_last",
        ("channels_last",),
        KnobBound.LAYOUT,
        "Store images and the weights of convolutions with the channels innermost.",
        order=40,
        share=0.1,
        structural=True,
        group="layout",
        needs=frozenset({Trait.CONVOLUTIONS}),
    ),
    KnobSetting(
        "force_layout",
        ("force_layout_optimization=True",),
        KnobBound.LAYOUT,
        "Have Inductor use channels-last convolutions even where its rules advise against them.",
        order=41,
        share=0.05,
        devices=_GPU,
        structural=True,
        group="layout",
        needs=frozenset({Trait.CONVOLUTIONS}),
    ),
    KnobSetting(
        "attention_flash",
        ("attention=flash",),
        KnobBound.ATTENTION,
        "Compute attention with FlashAttention.",
        order=50,
        share=0.02,
        devices=_GPU,
        structural=True,
        group="attention",
        needs=frozenset({Trait.ATTENTION}),
    ),
    KnobSetting(
        "attention_cudnn",
        ("attention=cudnn",),
        KnobBound.ATTENTION,
        "Compute attention with cuDNN.",
        order=51,
        share=0.03,
        devices=_GPU,
        structural=True,
        group="attention",
        needs=frozenset({Trait.ATTENTION}),
    ),
    KnobSetting(
        "attention_efficient",
        ("attention=efficient",),
        KnobBound.ATTENTION,
        "Compute attention with the memory-efficient kernel.",
        order=52,
        share=0.02,
        devices=_GPU,
        structural=True,
        group="attention",
        needs=frozenset({Trait.ATTENTION}),
    ),
    KnobSetting(
        "attention_math",
        ("attention=math",),
        KnobBound.ATTENTION,
        "Compute attention with matrix multiplications and generated kernels.",
        order=53,
        share=0.01,
        structural=True,
        group="attention",
        needs=frozenset({Trait.ATTENTION}),
    ),
    KnobSetting(
        "tf32",
        ("tf32",),
        KnobBound.DENSE,
        "Multiply float32 matrices with 10 bits of precision on the tensor cores.",
        order=60,
        share=0.6,
        devices=_GPU,
        numerics=Numerics.TF32,
        structural=True,
        group="precision",
        needs=frozenset({Trait.FLOAT32}),
    ),
    KnobSetting(
        "bf16",
        ("bf16",),
        KnobBound.KERNELS,
        "Compute in bfloat16 where autocast considers it safe.",
        order=61,
        share=0.5,
        numerics=Numerics.REDUCED,
        structural=True,
        group="precision",
        needs=frozenset({Trait.FLOAT32}),
    ),
    KnobSetting(
        "optimizer",
        ("optimizer",),
        KnobBound.OPTIMIZER,
        "Compile the optimizer's step too.",
        order=70,
        share=0.1,
        works=_STEP,
        structural=True,
        compile_factor=1.4,
    ),
    KnobSetting(
        "blocks",
        ("blocks",),
        KnobBound.CALL,
        "Compile one of the model's repeated blocks and use it for all of them: a shorter compile.",
        order=80,
        share=0.0,
        structural=True,
        compile_factor=0.5,
        # Each call of the block replays the same CUDA graph, which overwrites the results of the call before.
        excludes=("cuda_graphs",),
        needs=frozenset({Trait.BLOCKS}),
    ),
    KnobSetting(
        "coordinate_descent",
        ("coordinate_descent_tuning=True",),
        KnobBound.GENERATED,
        "Tune the launch parameters of each generated kernel step by step.",
        order=100,
        share=0.12,
        devices=_GPU,
        autotunes=True,
        compile_factor=2.5,
        changes_templates=True,
    ),
    KnobSetting(
        "pointwise_autotune",
        ("max_autotune_pointwise=True",),
        KnobBound.GENERATED,
        "Time several launch parameters of each generated kernel and keep the fastest.",
        order=102,
        share=0.01,
        devices=_GPU,
        autotunes=True,
        compile_factor=1.3,
        changes_templates=True,
    ),
    KnobSetting(
        "combo_kernels",
        ("combo_kernels=True",),
        KnobBound.GENERATED,
        "Combine independent small kernels into one launch.",
        order=104,
        share=0.08,
        devices=_GPU,
        compile_factor=1.4,
    ),
    KnobSetting(
        "gemm_autotune",
        ("max_autotune_gemm=True", "longest=32"),
        KnobBound.DENSE,
        "Time the most promising implementations of the matrix multiplications and convolutions that take the longest.",
        order=110,
        share=0.1,
        devices=_GPU,
        autotunes=True,
        compile_factor=3.0,
        group="autotuned",
    ),
    KnobSetting(
        "gemm_autotune_tma",
        ("max_autotune_gemm=True", "longest=32", "triton.enable_persistent_tma_matmul=True"),
        KnobBound.MATMUL,
        "Also time implementations of the longest that load tiles through Hopper's copy engine.",
        order=112,
        share=0.03,
        devices=_GPU,
        autotunes=True,
        compile_factor=4.0,
        group="autotuned",
        needs=frozenset({Trait.HOPPER}),
    ),
    KnobSetting(
        "cpp_gemm",
        ("max_autotune_gemm=True", 'max_autotune_gemm_backends="CPP,ATEN"'),
        KnobBound.MATMUL,
        "Time generated C++ matrix multiplications against the library's, and keep the fastest.",
        order=114,
        share=0.15,
        works=_INFERENCE,
        devices=_CPU,
        autotunes=True,
        compile_factor=3.0,
        requires=("freezing",),
    ),
    KnobSetting(
        "concat_linear",
        ("cpp.enable_concat_linear=True",),
        KnobBound.MATMUL,
        "Combine linear layers that read the same tensor into one matrix multiplication.",
        order=116,
        share=0.05,
        works=_INFERENCE,
        devices=_CPU,
        requires=("freezing",),
    ),
    KnobSetting(
        "memory_bound_matmul",
        ("decompose_mem_bound_mm=True",),
        KnobBound.MATMUL,
        "Generate kernels for thin matrix multiplications that are limited by memory.",
        order=118,
        share=0.01,
        devices=_GPU,
    ),
    KnobSetting(
        "shape_padding",
        ("force_shape_pad=True",),
        KnobBound.MATMUL,
        "Pad matrices to sizes that the tensor cores like, even where Inductor's rules advise against it.",
        order=120,
        share=0.03,
        devices=_GPU,
    ),
    KnobSetting(
        "conv_as_matmul",
        ("conv_1x1_as_mm=True",),
        KnobBound.CONVOLUTION,
        "Compute convolutions of size 1 as matrix multiplications.",
        order=122,
        share=0.01,
        needs=frozenset({Trait.CONVOLUTIONS}),
    ),
    KnobSetting(
        "dependent_launch",
        ("triton.enable_pdl=True",),
        KnobBound.GENERATED,
        "Let a kernel start while the kernel before it is finishing.",
        order=124,
        share=0.03,
        devices=_GPU,
        needs=frozenset({Trait.HOPPER}),
    ),
    KnobSetting(
        "loop_order",
        ("loop_ordering_after_fusion=True",),
        KnobBound.GENERATED,
        "Reorder loops so that more kernels can be fused.",
        order=126,
        share=0.05,
    ),
    KnobSetting(
        "tiled_reductions",
        ("triton.prefer_nd_tiling=True", "triton.tile_reductions=True"),
        KnobBound.GENERATED,
        "Generate kernels with tiles of two dimensions where a transposed tensor is read.",
        order=128,
        share=0.01,
        devices=_GPU,
    ),
    KnobSetting(
        "mixed_reductions",
        ("triton.mix_order_reduction=True",),
        KnobBound.GENERATED,
        "Fuse reductions over rows and over columns of the same tensor.",
        order=130,
        share=0.06,
        works=frozenset({Work.FORWARD_BACKWARD, Work.TRAINING_STEP}),
        devices=_GPU,
    ),
    KnobSetting(
        "cooperative_reductions",
        ("triton.cooperative_reductions=True",),
        KnobBound.GENERATED,
        "Split long reductions over several blocks of the GPU within one kernel.",
        order=132,
        share=0.01,
        devices=_GPU,
    ),
    KnobSetting(
        "multi_kernel",
        ("triton.multi_kernel=1",),
        KnobBound.GENERATED,
        "Time two kinds of reduction kernels and keep the faster.",
        order=134,
        share=0.04,
        devices=_GPU,
        autotunes=True,
        compile_factor=1.8,
    ),
    KnobSetting(
        "benchmark_fusion",
        ("benchmark_fusion=True",),
        KnobBound.GENERATED,
        "Time each fusion and fuse only what is faster.",
        order=136,
        share=0.04,
        devices=_GPU,
        autotunes=True,
        compile_factor=3.0,
    ),
    KnobSetting(
        "aggressive_fusion",
        ("aggressive_fusion=True",),
        KnobBound.GENERATED,
        "Fuse kernels even if they share little memory traffic.",
        order=138,
        share=0.01,
    ),
    KnobSetting(
        "larger_fusions",
        ("max_fusion_size=256",),
        KnobBound.GENERATED,
        "Allow kernels of 256 fused operators instead of 64.",
        order=140,
        share=0.01,
    ),
    KnobSetting(
        "one_thread",
        ("cpp.threads=1",),
        KnobBound.GENERATED,
        "Run generated kernels in one thread, which saves starting threads for small tensors.",
        order=150,
        share=0.1,
        devices=_CPU,
        group="threads",
    ),
    KnobSetting(
        "narrow_vectors",
        ("cpp.simdlen=256",),
        KnobBound.GENERATED,
        "Use vectors of 256 bits instead of 512, with which some processors have higher clocks.",
        order=152,
        share=0.05,
        devices=_CPU,
        needs=frozenset({Trait.AVX512}),
    ),
)
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
    lacking = sorted(knob.needs - set(has))
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
