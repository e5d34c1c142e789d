# truth: sums and exponentials in bfloat16: compiled code rounds less often, and is closer to float64
# stage: none
# seen: no difference beyond rounding
import torch


def share_before(weights):
    shifted = weights - weights.amax(-1, keepdim=True)
    grown = torch.exp(shifted * 0.37)
    total = grown.cumsum(-1)
    return (total / total[..., -1:]).log1p(), torch.logsumexp(weights, -1)


def main():
    weights = torch.linspace(-2, 2, 360).sin().mul(4).reshape(3, 120).to(torch.bfloat16)
    return torch.compile(share_before)(weights)


if __name__ == "__main__":
    print(main())
