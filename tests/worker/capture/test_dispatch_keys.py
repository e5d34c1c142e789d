# ruff: noqa: E501 - KEYS is a table
"""Dispatch keys and modes by which a frame was recompiled, in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.report import GuardCause
from tests.support.recording import record

pytestmark = pytest.mark.torch

# what the test is about, two calls, and the differences
KEYS = (
    ("inference", "inside(f, ones(4))", "inside(lambda: f(ones(4)))", ["x was a normal tensor, now an inference tensor"]),
    ("normal", "inside(lambda: f(ones(4)))", "inside(f, ones(4))", ["x was an inference tensor, now a normal tensor"]),
    ("used_outside", "f(ones(4))", "f(inside(ones, 4))", ["x was a normal tensor, now an inference tensor"]),
    ("created_outside", "f(inside(ones, 4))", "f(ones(4))", ["x was an inference tensor, now a normal tensor"]),
    ("mode_of_inference_tensors", "without_gradients(f, kept, kept)", "inside(f, kept, kept)", ["inference mode was off, now on"]),
    ("inference_and_size", "inside(f, ones(9))", "inside(lambda: f(ones(1)))", ["x was a normal tensor, now an inference tensor", "x.size(0) was 9, now 1"]),
    ("inference_mode", "without_gradients(f, ones(4), ones(4))", "inside(f, ones(4), ones(4))", ["inference mode was off, now on"]),
    ("gradients", "f(ones(4))", "inside(f, ones(4))", ["grad mode was on, now off"]),
    ("custom_operator", "f(ones(4))", "below_autograd(f, ones(4))", ["autograd was on for x, now off, as in inference mode or in a custom operator"]),
    ("no_custom_operator", "below_autograd(f, ones(4))", "f(ones(4))", ["autograd was off for x, as in inference mode or in a custom operator, now on"]),
    ("autocast", "f(ones(4))", "in_autocast(f, ones(4))", ["autocast was off, now on"]),
    ("dtype_of_autocast", "in_autocast(f, ones(4))", "in_autocast(f, ones(4), dtype=torch.float16)", ["the dtype of autocast was bfloat16, now float16"]),
    ("cache_of_autocast", "in_autocast(f, ones(4))", "in_autocast(f, ones(4), cache_enabled=False)", ["autocast's cache of converted weights was on, now off"]),
    ("conjugate", "f(number)", "f(number.conj())", ["x was an ordinary tensor, now a lazily conjugated view"]),
    ("negative", "f(ones(4))", "f(number.conj().imag)", ["x was an ordinary tensor, now a lazily negated view", "x.stride(0) was 1, now 2"]),
    ("zero", "f(ones(4))", "f(torch._efficientzerotensor((4,)))", ["x was an ordinary tensor, now a tensor of zeros without memory"]),
    ("sparse", "f(torch.eye(4))", "f(torch.eye(4).to_sparse())", ["x was a dense tensor, now a sparse tensor"]),
    ("meta", "f(ones(4))", "f(ones(4, device='meta'))", ["x.device was cpu, now meta"]),
    ("requires_grad", "f(ones(4))", "f(ones(4).requires_grad_())", ["x.requires_grad was False, now True"]),
    ("vmap", "f(ones(4))", "torch.vmap(f)(ones(2, 4))", ["x was an ordinary tensor, now a batch of torch.vmap"]),
    ("jvp", "f(ones(4))", "torch.func.jvp(f, (ones(4),), (ones(4),))", ["x was an ordinary tensor, now wrapped by a gradient of torch.func"]),
    ("functionalize", "f(ones(4))", "torch.func.functionalize(f)(ones(4))", ["x was an ordinary tensor, now wrapped by torch.func.functionalize"]),
    ("subclass", "f(ones(4))", "f(TwoTensor(ones(4), ones(4)))", ["the type of x was Tensor, now TwoTensor"]),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")  # torch.func of 2.14
def test_dispatch_keys_that_differ_are_in_plain_words(tmp_path: Path) -> None:
    calls = "\n".join(
        f"            f = compiled({name!r})\n            {first}\n            attempt(lambda: {second})"
        for name, first, second, _ in KEYS
    )
    got = record(
        tmp_path,
        f"""
        from torch import ones
        from torch.testing._internal.two_tensor import TwoTensor

        number = ones(4, dtype=torch.complex64)

        def inside(f, *args):
            with torch.inference_mode():
                return f(*args)

        def without_gradients(f, *args):
            with torch.no_grad():
                return f(*args)

        def below_autograd(f, *args):
            with torch._C._AutoDispatchBelowAutograd():
                return f(*args)

        def in_autocast(f, *args, **options):
            with torch.autocast("cpu", **options):
                return f(*args)

        def attempt(call):
            try:
                call()
            except Exception:
                pass  # the call is compared before torch refuses to trace it

        kept = inside(ones, 4)

        def double(x, y=None):
            return x * 2 if y is None else x + y

        def compiled(name):
            torch._dynamo.reset()
            code = double.__code__.replace(co_name=name, co_qualname=name)
            return torch.compile(type(double)(code, globals(), name, (None,)))

        def main():
{calls}
        """,
    )
    assert got.failure is None
    entries = {
        recompilation.function: [failure.difference for failure in recompilation.entries[0].failures]
        for recompilation in got.parts.recompiles
    }
    assert entries == {name: differences for name, _, _, differences in KEYS}
    modes = [
        failure
        for recompilation in got.parts.recompiles
        for failure in recompilation.entries[0].failures
        if failure.cause is GuardCause.GLOBAL_STATE
    ]
    assert len(modes) == 8
    assert not any(failure.born or failure.source for failure in modes)
