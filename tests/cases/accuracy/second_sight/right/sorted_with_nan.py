# truth: NaN in sorts, maxima, comparisons and products of zero and infinity, where eager mode has it, too
# stage: none
# seen: no difference beyond rounding
import torch


def ranks(x):
    ordered = x.sort(-1).values
    limited = torch.clamp(x, -1.0, 1.0)
    product = torch.zeros_like(x) * (x / 0.0)
    return ordered, limited, x.amax(-1), torch.fmax(x, x.flip(-1)), product, x.nan_to_num(0.5), x == x


def main():
    x = torch.tensor([[1.0, float("nan"), -2.0, 0.0], [float("inf"), 3.0, float("-inf"), float("nan")]])
    x.requires_grad_()
    results = torch.compile(ranks)(x)
    results[2].nansum().backward()
    return [value.detach() for value in results], x.grad


if __name__ == "__main__":
    print(main())
