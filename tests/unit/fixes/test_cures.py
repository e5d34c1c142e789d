"""Each cause of a break, and each kind of recompilation, that has a remedy has an annotated case with it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.support.fix_cases import parse

CASES = Path(__file__).parents[2] / "cases" / "fixes"
CAUSES = {
    "a branch on a tensor": ("breaks.branch", "where"),
    "a branch with side effects": ("breaks.Block", "cond"),
    "a layer that is skipped at random": ("data.Layers", "cond"),
    "item": ("breaks.number", "keep_tensor"),
    "item of half precision": ("breaks.half", "capture_scalar_outputs"),
    "tolist": ("breaks.sizes", "capture_scalar_outputs"),
    "int of a tensor": ("further.integer", "capture_scalar_outputs"),
    "arange up to a tensor": ("further.longest", "capture_scalar_outputs"),
    "a slice by item": ("further.sliced", "capture_scalar_outputs"),
    "a number that decides a branch": ("data.promised_number", "check"),
    "a number that decides a branch of a callee": ("data.promised_flag", "check"),
    "nonzero": ("breaks.nonzero", "capture_dynamic_output_shape_ops"),
    "unique and bincount": ("further.distinct", "capture_dynamic_output_shape_ops"),
    "the rows of an expert": ("further.experts", "capture_dynamic_output_shape_ops"),
    "a sum of what a mask selects": ("breaks.masked_sum", "where"),
    "y[m] = f(x[m])": ("breaks.masked_values", "where"),
    "y[m] = module(x[m])": ("data.SelectedRows", "where"),
    "repeat_interleave": ("breaks.repeats", "output_size"),
    "a random number of NumPy": ("breaks.random_number", "torch_random"),
    "a logger": ("breaks.logged", "ignore_logging_functions"),
    "print in the graph": ("breaks.printed", "graph_print"),
    "print after the graph": ("breaks.printed", "reorderable_logging_functions"),
    "print in eager mode": ("breaks.printed", "is_compiling"),
    "a warning": ("breaks.warned", "reorderable_logging_functions"),
    "a clock": ("hoisting.measured", "hoist"),
    "a clock between statements": ("further.measured_within", "is_compiling"),
    "a seed": ("hoisting.seeded", "hoist"),
    "open": ("hoisting.from_file", "hoist"),
    "a lock": ("hoisting.Locked", "hoist"),
    "cudnn.flags": ("further.without_cudnn", "hoist"),
    "a helper that is not traced": ("helpers.disabled", "custom_op"),
    "backward": ("further.backward", "trace_autograd_ops"),
    "autograd.grad": ("breaks.gradient", "trace_autograd_ops"),
    "raise": ("breaks.checked", "assert_async"),
    "assert": ("further.asserted", "assert_async"),
    "a parameter without gradients": ("further.frozen", "plain_tensor"),
    "requires_grad on an intermediate tensor": ("breaks.flagged", "eager_requires_grad"),
}
"""`masked_fill` has no case: with torch 2.13, `y[mask] = 0` does not break."""
RECOMPILATIONS = {
    "a size": ("size", "dynamic"),
    "a size of 1": ("size_of_one", "shapes_spec"),
    "an integer": ("further.whole_number", "dynamic"),
    "a float": ("fraction", "tensor_argument"),
    "a global number": ("global_number", "tensor_argument"),
    "a counter": ("Counter", "buffer"),
    "a float of a module": ("further.Warmup", "buffer"),
    "an index of a layer": ("Layer", "buffer"),
    "an index of a layer, by a setting": ("Layer", "allow_unspec_int_on_nn_module"),
    "the length of a list": ("length", "stack"),
    "dtype": ("dtype", "cast"),
    "strides": ("layout", "contiguous"),
    "a growing cache": ("further.growing_cache", "shapes_spec"),
    "a tuple for a list": ("tuple_for_a_list", "list_argument"),
    "the order of keys": ("order_of_keys", "sorted_keys"),
    "a conjugate view": ("conjugate", "resolve_conj"),
    "an argument of a call": ("Core", "tensor_argument_at_call"),
}
"""`mark_dynamic` and `mark_unbacked` are for torch before 2.13, which the cases do not run."""


@functools.cache
def annotated() -> set[tuple[str, str]]:
    """The file and top-level name of each finding with a remedy that passes, and the kind of the remedy."""
    annotated = set()
    for path in CASES.glob("*.py"):
        case = parse(path.read_text(encoding="utf-8"))
        for expectation in case.expected:
            above = [row for row in case.lines[: expectation.line] if row.startswith(("def ", "class "))]
            name = above[-1].split()[1].split("(")[0].rstrip(":")
            if expectation.head.startswith("fix: ["):
                annotated.add((f"{path.stem}.{name}", expectation.head.split()[2]))
    return annotated


@pytest.mark.parametrize("cause", [*CAUSES, *RECOMPILATIONS])
def test_a_cause_with_a_remedy_has_an_annotated_case(cause: str) -> None:
    place, kind = CAUSES.get(cause) or RECOMPILATIONS[cause]
    place = place if "." in place else f"recompilations.{place}"
    assert (place, kind) in annotated()
