# truth: a bfloat16 mean loses more in eager mode than in the fused kernel
# stage: none
# seen: no difference beyond rounding
import torch


def spread(x):
    mean = x.mean(-1, keepdim=True)
    return ((x - mean) * (x - mean) * 3.0 + 1.0).sum(-1) - mean.squeeze(-1)


def main():
    return torch.compile(spread)(torch.linspace(0, 9, 512).reshape(4, 128).to(torch.bfloat16))


if __name__ == "__main__":
    print(main())
