"""Autotuned kernels: those whose timed runs change their first result, and those that look like them."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def zero_out(named, reset_only=False):
    named["out"].zero_()


def nothing(named, reset_only=False):
    pass


def in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2 + 1, mask=at < n)


def shift(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2 + 1, mask=at < n)


def add_to(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(out + at, mask=at < n), mask=at < n)


def sum_up(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


def largest(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(out, tl.max(tl.load(x + at, mask=at < n, other=0)))


def relu(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)


def scratch(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
    tl.store(out + at, tl.load(out + at, mask=at < n) + 1, mask=at < n)


def tuned(kernel, configs=CONFIGS, **options):
    return triton.autotune(configs, key=["n"], **options)(triton.jit(kernel))


plain_in_place = tuned(in_place)
plain_add_to = tuned(add_to)
plain_sum_up = tuned(sum_up)
plain_shift = tuned(shift)
plain_heuristics = triton.autotune(CONFIGS, key=[])(
    triton.heuristics({"n": lambda named: named["x"].numel()})(triton.jit(in_place))
)
zeroes_values = tuned(add_to, reset_to_zero=["out"])
forgets_in_hook = tuned(sum_up, pre_hook=nothing)
restored_in_place = tuned(in_place, restore_value=["x"])
zeroed_sum_up = tuned(sum_up, reset_to_zero=["out"])
hooked_sum_up = tuned(sum_up, pre_hook=zero_out)
hooked_configs = tuned(sum_up, [triton.Config(c.kwargs, pre_hook=zero_out) for c in CONFIGS])
single = tuned(sum_up, CONFIGS[:1])
only_written = tuned(shift)
relu_in_place = tuned(relu)
largest_of_all = tuned(largest)
written_then_read = tuned(scratch)
pruned = tuned(shift, prune_configs_by={"early_config_prune": lambda configs, named, **_: configs[:1]})


# planted: works_in_place restore_value=["x"]
# fuselight: works_in_place(f32[200])
def works_in_place(x):
    plain_in_place[grid](x, n=x.numel())
    return x


# planted: same_tensor_twice restore_value=["out"]
# fuselight: same_tensor_twice(f32[200])
def same_tensor_twice(x):
    plain_shift[grid](x, x, n=x.numel())
    return x


# planted: adds_to_an_argument restore_value=["out"]
# fuselight: adds_to_an_argument(f32[200], f32[200])
def adds_to_an_argument(x, out):
    plain_add_to[grid](x, out, n=x.numel())
    return out


# planted: sums_up reset_to_zero=["out"] | restore_value=["out"]
# fuselight: sums_up(f32[200])
def sums_up(x):
    out = torch.zeros(1)
    plain_sum_up[grid](x, out, n=x.numel())
    return out


# planted: after_heuristics restore_value=["x"]
# fuselight: after_heuristics(f32[200])
def after_heuristics(x):
    plain_heuristics[lambda meta: (4,)](x)
    return x


# planted: loses_values restore_value=["out"]
# fuselight: loses_values(f32[200], f32[200])
def loses_values(x, out):
    zeroes_values[grid](x, out, n=x.numel())
    return out


# planted: hook_without_use
# fuselight: hook_without_use(f32[200])
def hook_without_use(x):
    out = torch.zeros(1)
    forgets_in_hook[grid](x, out, n=x.numel())
    return out


# fuselight: right_in_place(f32[200])
def right_in_place(x):
    restored_in_place[grid](x, n=x.numel())
    relu_in_place[grid](x, n=x.numel())
    return x


# fuselight: right_sums(f32[200])
def right_sums(x):
    outs = torch.zeros(4, 1).unbind()
    for kernel, out in zip((zeroed_sum_up, hooked_sum_up, hooked_configs, single), outs):
        kernel[grid](x, out, n=x.numel())
    return outs


# fuselight: right_outputs(f32[200], i32[200])
def right_outputs(x, numbers):
    out, other, most = torch.empty_like(x), torch.empty_like(x), torch.zeros(1, dtype=torch.int32)
    only_written[grid](x, out, n=x.numel())
    pruned[grid](x, out, n=x.numel())
    written_then_read[grid](x, other, n=x.numel())
    largest_of_all[grid](numbers, most, n=x.numel())
    return out, other, most
