"""Which values a tuned file may have: what a search can write, with its types and ranges. Standard library only.

A tuned file may come with a repository, and its options and launch configurations become part of compiled code.
Invariant: nothing is allowed that names a program, a path, a hook, a callable or code; what is not listed is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fuselight.shared.report.tuned import ATTENTION, PRECISION, TunedResult

_Rule = Callable[[Any], bool]
_MAX = 2**31
_LONGEST = 4096
"""Characters of a text, and names of submodules."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HASH = re.compile(r"[A-Za-z0-9_-]{1,128}")
_WORD = re.compile(r"[a-z0-9_]{0,32}")
_ARTIFACTS = re.compile(r"[A-Za-z0-9_.-]{0,200}")


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(least: int, most: int, *, or_none: bool = False) -> _Rule:
    def holds(value: Any) -> bool:
        if value is None:
            return or_none
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return holds


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LONGEST


def _names(*known: str) -> _Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, str) and all(part.strip().upper() in known for part in value.split(","))

    return holds


_BACKENDS = _names("ATEN", "TRITON", "CPP", "CUTLASS", "CK", "CKTILE")
_SPACES = _names("DEFAULT", "EXHAUSTIVE")
_SWITCHES = """
    aggressive_fusion allow_buffer_reuse apply_gumbel_max_trick assume_aligned_inputs autotune_multi_device
    b2b_gemm_pass batch_fusion benchmark_combo_kernel benchmark_epilogue_fusion benchmark_fusion
    benchmark_template_fusion combo_kernels
    combo_kernel_autotune_grouping combo_kernel_foreach_dynamic_shapes combo_kernel_per_subkernel_blocks
    combo_kernels_pointwise_only comprehensive_padding constant_and_index_propagation conv_1x1_as_mm
    coordinate_descent_check_all_directions coordinate_descent_tuning cpp_wrapper dce decompose_mem_bound_mm
    delay_realize_cheap_outputs deterministic disable_padding_cpu dynamic_scale_rblock
    efficient_conv_bn_eval_fx_passes emulate_precision_casts enable_linear_binary_folding epilogue_fusion
    epilogue_fusion_first epilogue_fusion_with_atomic_add expand_dimension_for_pointwise_nodes fallback_random
    force_fuse_int_mm_with_mul force_layout_optimization force_pointwise_cat force_shape_pad freezing
    fx_graph_cache graph_partition group_fusion inplace_buffers inplace_padding joint_graph_constant_folding
    keep_addmm_fused_for_half_dtypes keep_output_stride layout_optimization loop_index_inversion_in_fusion
    loop_ordering_after_fusion loop_reindexing_after_fusion max_autotune max_autotune_allow_flexible_layouts
    max_autotune_gemm max_autotune_pointwise max_autotune_prune_choices_based_on_shared_mem memory_planning
    online_softmax optimize_scatter_upon_const_tensor pad_channels_last pad_dynamic_shapes pad_outputs
    pattern_matcher permute_fusion pick_loop_orders pipeline_max_autotune_gemm prologue_fusion
    reorder_for_compute_comm_overlap reorder_for_locality reorder_for_peak_memory shape_padding size_asserts
    split_cat_fx_passes split_reductions static_weight_shapes use_fast_math use_mixed_mm
    use_static_cuda_launcher cpp.dynamic_threads cpp.enable_concat_linear cpp.enable_grouped_gemm_template
    cpp.enable_loop_tail_vec cpp.enable_tiling_heuristics cpp.enable_unsafe_math_opt_flag
    cpp.fallback_scatter_reduce_sum cpp.force_inline_kernel cpp.no_redundant_loops cpp.use_decompose_tanh
    cpp.use_small_dequant_buffer cpp.weight_prepack triton.autotune_cublasLt triton.autotune_pointwise
    triton.coalesce_tiling_analysis triton.codegen_upcast_to_fp32 triton.cooperative_reductions
    triton.cudagraph_skip_dynamic_graphs triton.cudagraph_support_input_mutation triton.cudagraph_trees
    triton.cudagraphs triton.decompose_sort_ops triton.dense_indexing triton.divisible_by_16
    triton.dynamic_disable_pipelining triton.enable_persistent_tma_matmul triton.enable_pdl
    triton.enable_template_tma_store triton.force_cooperative_reductions triton.mix_order_reduction
    triton.mix_order_reduction_autotune_split_size triton.mix_order_reduction_non_strict_mode
    triton.native_matmul triton.nested_reduction triton.persistent_reductions triton.prefer_nd_tiling
    triton.skip_l1_cache triton.tile_reductions triton.tiling_prevents_pointwise_fusion
    triton.tiling_prevents_reduction_fusion triton.use_block_ptr triton.use_tensor_descriptor
""".split()  # noqa: SIM905 - a table
_COUNTS = """
    combo_kernel_allow_mixed_sizes combo_kernel_max_num_args combo_kernel_max_num_nodes combo_kernels_autotune
    coordinate_descent_search_radius max_complex_pointwise_cat_inputs max_epilogue_benchmarked_choices
    max_fusion_buffer_group_pairwise_attempts max_fusion_size max_pointwise_cat_inputs min_num_split
    padding_alignment_bytes padding_stride_threshold realize_cpu_opcount_threshold realize_reads_threshold
    score_fusion_memory_threshold unroll_reductions_threshold cpp.gemm_max_k_slices
    cpp.max_horizontal_fusion_size cpp.min_chunk_size triton.decompose_k_threshold
    triton.min_split_scan_rblock triton.mix_order_reduction_initial_xblock
    triton.mix_order_reduction_max_reads triton.num_decompose_k_splits triton.spill_threshold
""".split()  # noqa: SIM905 - a table
_OTHERS: dict[str, _Rule] = {
    "cpp.simdlen": _is_number(0, 2048, or_none=True),
    "cpp.threads": _is_number(-1, 1024),
    "max_autotune_conv_backends": _BACKENDS,
    "max_autotune_gemm_backends": _BACKENDS,
    "max_autotune_gemm_search_space": _SPACES,
    "max_autotune_flex_search_space": _SPACES,
    "max_fusion_unique_io_buffers": _is_number(0, _MAX, or_none=True),
    "min_overlap_ratio": _is_share,
    "multi_kernel_hints": lambda value: (
        isinstance(value, list) and len(value) <= _LONGEST and all(map(_is_number(1, _MAX), value))
    ),
    "realize_acc_reads_threshold": _is_number(0, _MAX, or_none=True),
    "realize_opcount_threshold": _is_number(0, _MAX, or_none=True),
    "triton.max_tiles": _is_number(1, 3, or_none=True),
    "triton.multi_kernel": _is_number(0, 3),
}
OPTIONS: Mapping[str, _Rule] = {
    **dict.fromkeys(_SWITCHES, _is_switch),
    **dict.fromkeys(_COUNTS, _is_number(0, _MAX)),
    **_OTHERS,
}
"""Inductor's options that a search may write: whether a value is allowed, by name."""


def refused_option(name: str, value: Any) -> str:
    """Why an option of Inductor cannot be in a tuned file; empty if it can."""
    rule = OPTIONS.get(name.replace("-", "_"))
    if rule is None:
        return f"the option `{name}`, which a search cannot set"
    return "" if rule(value) else f"the value `{_shown(value)}` of the option `{name}`"


def refused_values(result: TunedResult) -> Iterator[str]:
    """What a result has that no search writes, each in words that follow `it has`."""
    for name, value in result.options.items():
        if refused := refused_option(name, value):
            yield refused
    for what, text, known, pattern in (
        ("attention", result.preparation.attention, ATTENTION, _WORD),
        ("precision", result.preparation.precision, PRECISION, _WORD),
        ("artifacts", result.artifacts, (), _ARTIFACTS),
    ):
        if text not in known and not pattern.fullmatch(text):
            yield f"the {what} `{_shown(text)}`"
    for block in result.blocks:
        if not all(re.fullmatch(r"\w+", part) for part in block.split(".")):
            yield f"the submodule `{_shown(block)}`"
    for family, choices in result.kernels.items():
        for key, choice in choices.items():
            if not _is_choice(family, choice):
                yield f"the value `{_shown(choice)}` of the kernel choice `{_shown(family)}` `{_shown(key)}`"


def _is_choice(family: str, choice: Any) -> bool:
    """Whether a choice of kernel tuning is plain data; a family that this version does not know is not used."""
    if family == "triton":
        return isinstance(choice, dict) and all(_is_launch(name, value) for name, value in choice.items())
    if family == "algorithms":  # it is only compared
        return isinstance(choice, str) and len(choice) <= _LONGEST
    if family in {"padding", "fusion"}:
        return isinstance(choice, bool)
    return family != "multi_kernel" or _is_number(0, _LONGEST)(choice)


def _is_launch(name: str, value: Any) -> bool:
    """Whether a part of a launch configuration is a number: Inductor writes it into the code that launches a kernel."""
    if name in {"configs_hash", "triton_cache_hash"}:
        return value is None or (isinstance(value, str) and bool(_HASH.fullmatch(value)))
    if name == "extra_options":
        return not value
    if name == "time_taken_ms":  # nobody reads it
        return isinstance(value, (int, float))
    return bool(_NAME.fullmatch(name)) and isinstance(value, int) and -1 <= value <= _MAX


def _shown(value: Any) -> str:
    text = ascii(value) if not isinstance(value, str) else ascii(value)[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - for one line
