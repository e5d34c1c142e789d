"""When kernels of the real and the virtual wrapper count as identical."""

from __future__ import annotations

from benchmarks.gpu.kernel_text import GraphText, compare, read

WRAPPER = """\
async_compile = AsyncCompile()
# kernel path: /tmp/x/abc.py
triton_poi_fused_add_{number} = async_compile.triton('triton_poi_fused_add_{number}', '''
import triton
@triton_heuristics.pointwise(
    filename=__file__,
    inductor_meta={{'kernel_name': 'triton_poi_fused_add_{number}', 'backend_hash': '{hash}'}},
)
@triton.jit
def triton_poi_fused_add_{number}(in_ptr0, xnumel):
    xnumel = {size}  # a comment
    tl.store(in_ptr0, xnumel)
''', device_str='cuda')

def call(self, args):
    # extern_kernels.bmm( stands in a comment
    triton_poi_fused_add_{number}.run(buf0, {size}, stream=stream0)
    extern_kernels.mm(buf0, buf1, out=buf2)
    buf3 = torch.ops.aten._thnn_fused_gru_cell.default(buf2)
"""


def graph(number: int = 0, size: int = 8, of: str = "ABC") -> GraphText:
    return read("forward", WRAPPER.format(number=number, size=size, hash=of))


def test_numbers_hashes_and_comments_make_no_difference() -> None:
    assert graph(0, of="ABC").kernels == graph(12, of="DEF").kernels
    assert len(graph().kernels) == 1


def test_library_calls_are_counted_separately() -> None:
    assert graph().externs == {"extern_kernels.mm": 1, "torch.ops.aten._thnn_fused_gru_cell.default": 1}


def test_another_size_is_a_difference_with_its_diff() -> None:
    comparison = compare([graph(size=8)], [graph(size=16)])["forward"]
    assert (comparison.identical, comparison.total) == (0, 1)
    assert "-    xnumel = 8" in comparison.differences[0]
    assert "+    xnumel = 16" in comparison.differences[0]


def test_a_kernel_or_a_call_without_a_partner_counts_against_both_sides() -> None:
    alone = GraphText("forward", (), {})
    for real, virtual in ((alone, graph()), (graph(), alone)):
        comparison = compare([real], [virtual])["forward"]
        assert (
            comparison.identical,
            comparison.total,
            comparison.externs_identical,
            comparison.externs_total,
        ) == (0, 1, 0, 2)
        assert len(comparison.differences) == 1
    assert compare([graph()], [alone])["forward"].extern_differences["extern_kernels.mm"] == (1, 0)


def test_a_phase_missing_on_one_side_is_compared() -> None:
    backward = GraphText("backward", graph().kernels, {})
    comparisons = compare([graph(), backward], [graph()])
    assert (
        comparisons["forward"].identical,
        comparisons["backward"].identical,
        comparisons["backward"].total,
    ) == (1, 0, 1)
