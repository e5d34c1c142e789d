# truth: batch norm in training mode updates its running statistics
# stage: none
# seen: no difference beyond rounding
import torch


def main():
    norm = torch.nn.BatchNorm1d(4)
    compiled = torch.compile(norm)
    x = torch.arange(24.0).reshape(6, 4).sin()
    results = [compiled(x * scale).detach() for scale in (1.0, 2.0)]
    return results, norm.running_mean, norm.running_var, norm.num_batches_tracked


if __name__ == "__main__":
    print(main())
