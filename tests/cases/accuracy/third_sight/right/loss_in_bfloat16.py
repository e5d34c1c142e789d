# truth: right: the loss of bfloat16 logits differs by one rounding of bfloat16
# stage: none
# seen: result 0: off by up to 0.0039
import torch
from torch.nn import functional


def loss_of(logits, target, weight):
    return functional.binary_cross_entropy_with_logits(logits, target, weight, reduction="none")


def main():
    torch.manual_seed(0)
    logits = torch.randn(4, 6, dtype=torch.bfloat16)
    target = torch.rand(4, 6).bfloat16()
    return torch.compile(loss_of)(logits, target, torch.rand(6))


if __name__ == "__main__":
    print(main())
