"""Fixes of numbers that decide a branch, in a file that captures them, with the text after."""

import torch

torch._dynamo.config.capture_scalar_outputs = True


# fuselight: captured(f32[8], i64[3] % 4 + 2)
def captured(x, n):
    most = int(n.max())
    if most > n.size(0) * 9:
    # fix: [GB0170] check "Promise `most <= n.size(0) * 9`"
    # = 2 -> 1 graphs, changes behavior: calls in which that does not hold fail
    #  |    most = int(n.max())
    # +|    torch._check(most <= n.size(0) * 9)
    # refused: [GB0170] check "Promise `most > n.size(0) * 9`"
    # = the changed text fails: RuntimeError: Runtime assertion failed for expression u0 >= 28 on
    # = node 'ge'
    #  |    most = int(n.max())
    # +|    torch._check(most > n.size(0) * 9)
        x = x + 1
    return x[:most] * 2


# fuselight: flagged(f32[8], i64[3] % 4 + 2)
def flagged(x, n):
    is_long = (n > 10).any().item()
    if is_long:
    # fix: [GB0170] check "Promise `torch.sym_not(is_long)`"
    # = 2 -> 1 graphs, changes behavior: calls in which that does not hold fail
    #  |    is_long = (n > 10).any().item()
    # +|    torch._check(torch.sym_not(is_long))
        print(n)
    return x * 2
