"""Products of a range of Jacobians are computed for each pair of layers."""
import torch


@torch.compile(backend="eager")
def accumulate(jacobians, start, end):
# warning: [FL102] "`accumulate` is no longer compiled: it reached the recompile limit"
    result = jacobians[start]
    # warning: [FL201] "recompiled: start was 0, now 1"
    for i in range(start + 1, end):
        result = jacobians[i] @ result
    return result


if __name__ == "__main__":
    torch.manual_seed(0)
    jacobians = [torch.randn(4, 4) / 2 for _ in range(12)]
    norms = []
    for start in range(11):
        norms.append(float(accumulate(jacobians, start, 12).norm()))
    print(len(norms))
# run by: make corpora
