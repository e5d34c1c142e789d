"""Work in the order of a graph's wrapper, aligned with its launches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.measure.profile.alignment import Element, KnownBy, align
from fuselight.shared.report import Kernel, KernelKind


def _kernels(*names: str) -> list[Kernel]:
    kinds = {"cpp": KernelKind.CPP, "extern_kernels": KernelKind.EXTERN, "torch": KernelKind.FALLBACK}
    return [
        Kernel(name, kinds.get(name.partition(".")[0].partition("_fused")[0], KernelKind.TRITON), at)
        for at, name in enumerate(names)
    ]


def _elements(known_by: KnownBy, *names: str) -> list[Element]:
    return [Element(name, known_by) for name in names]


def _host(*names: str) -> list[Element]:
    return [Element(name, KnownBy.OPERATOR if "::" in name else KnownBy.RECORD) for name in names]


def _device(*names: str) -> list[Element]:
    return [Element(name, KnownBy.COPY if name.startswith("Mem") else KnownBy.DEVICE) for name in names]


def test_records_and_operators_are_aligned_by_name_and_order() -> None:
    kernels = _kernels(
        "extern_kernels.mm", "cpp_fused_0", "extern_kernels.mm", "torch.ops.aten.sort.stable", "cpp_fused_0"
    )
    numbers = align(
        _host("aten::mm", "graph_1_cpp_fused_0", "aten::mm", "aten::sort", "graph_1_cpp_fused_0"), kernels
    )
    assert numbers == [0, 1, 2, 3, 4]


def test_other_code_of_the_wrapper_is_omitted() -> None:
    kernels = _kernels("extern_kernels.bias_addmm", "triton_a")
    assert align(_host("aten::copy_", "aten::addmm", "triton_a", "aten::clone"), kernels) == [
        None,
        0,
        1,
        None,
    ]


def test_an_empty_launch_does_not_shift_the_others() -> None:
    kernels = _kernels("triton_a", "extern_kernels.mm", "triton_b", "triton_a")
    assert align(_host("triton_a", "triton_b", "triton_a"), kernels) == [0, 2, 3]


def test_a_library_call_under_another_name_gets_the_remaining_place() -> None:
    kernels = _kernels("triton_a", "extern_kernels.unknown", "triton_b")
    assert align(_host("triton_a", "other::name", "triton_b"), kernels) == [0, 1, 2]
    assert align(_host("triton_a", "aten::one", "aten::two", "triton_b"), kernels) == [0, None, None, 2]


def test_a_function_of_inductors_may_call_several_operators() -> None:
    kernels = _kernels("extern_kernels._mm_plus_mm", "triton_a")
    assert align(_host("aten::mm", "aten::mm", "triton_a"), kernels) == [0, 0, 1]


def test_a_kernel_with_tritons_suffix_and_a_cpp_template_with_a_prefix_are_known() -> None:
    assert align(_device("triton_a_0d1d2de"), _kernels("triton_a")) == [0]
    template = [Kernel("cpp_template_gemm_0", KernelKind.TEMPLATE, 0)]
    assert align(_host("graph_0_thread_blocked_cpp_template_gemm_0"), template) == [0]


def test_a_user_triton_kernel_keeps_its_name_on_the_device() -> None:
    kernels = [Kernel("my_kernel_0", KernelKind.USER_TRITON, 0), *_kernels("triton_a")]
    assert align(_device("my_kernel", "triton_a"), kernels) == [0, 1]


@pytest.mark.parametrize(
    ("work", "numbers"),
    [
        (("gemm",), [0]),
        (("Memset (Device)", "gemm", "splitKreduce_kernel"), [0, 0, 0]),
        (("nchwToNhwcKernel", "implicit_convolve", "nhwcToNchwKernel"), [0, 0, 0]),
    ],
)
def test_work_between_two_neighbors_belongs_to_their_library_call(
    work: tuple[str, ...], numbers: list[int]
) -> None:
    kernels = _kernels("triton_a", "extern_kernels.convolution", "triton_b")
    aligned = align(_device("triton_a", *work, "triton_b"), kernels)
    assert aligned == [0, *(number + 1 for number in numbers), 2]


def test_helper_kernels_belong_to_the_main_kernel() -> None:
    kernels = _kernels("extern_kernels.mm", "extern_kernels.addmm")
    work = ("gemm", "splitKreduce_kernel", "Memset (Device)", "nvjet", "splitKreduce_kernel")
    assert align(_device(*work), kernels) == [0, 0, 1, 1, 1]
    assert align(_device("flash_bwd_dot_do_o", "flash_bwd", "flash_bwd_convert_dq", "gemm"), kernels) == [
        0,
        0,
        0,
        1,
    ]


def test_an_ambiguous_launch_count_aligns_nothing() -> None:
    kernels = _kernels("extern_kernels.mm", "extern_kernels.mm", "triton_a")
    assert align(_device("one", "two", "three", "triton_a"), kernels) == [None, None, None, 2]


NAMES = ("triton_a", "triton_b", "extern_kernels.mm", "extern_kernels.addmm", "torch.ops.aten.sort.stable")
SEEN = ("triton_a", "triton_b", "aten::mm", "aten::addmm", "aten::sort", "aten::copy_", "sgemm", "Memset")


@given(st.lists(st.sampled_from(NAMES), max_size=12))
def test_launches_in_wrapper_order_are_aligned_completely(names: list[str]) -> None:
    records = {
        "extern_kernels.mm": "aten::mm",
        "extern_kernels.addmm": "aten::addmm",
        "torch.ops.aten.sort.stable": "aten::sort",
    }
    numbers = align(_host(*(records.get(name, name) for name in names)), _kernels(*names))
    assert numbers == list(range(len(names)))


@given(
    st.lists(
        st.sampled_from(SEEN).flatmap(
            lambda name: st.sampled_from(KnownBy).map(lambda known_by: Element(name, known_by))
        )
    ),
    st.lists(st.sampled_from(NAMES)),
)
def test_an_alignment_keeps_the_order(elements: list[Element], names: list[str]) -> None:
    numbers = align(elements, _kernels(*names))
    assert len(numbers) == len(elements)
    given_ = [launch for launch in numbers if launch is not None]
    assert given_ == sorted(given_)
    assert all(0 <= launch < len(names) for launch in given_)
