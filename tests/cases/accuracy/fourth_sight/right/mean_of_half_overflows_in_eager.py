# truth: the sum of absolute differences in half precision is infinite in eager mode; compiled code adds up in float32 and is closer to float64
# stage: none
# seen: no difference beyond rounding
import torch


def error(prediction, target):
    gap = torch.nn.functional.l1_loss(prediction, target, reduction="none")
    return gap.mean(), gap.sum()


def main():
    prediction = torch.full((8,), 4e4, dtype=torch.float16)
    return torch.compile(error)(prediction, -prediction * 0.6)


if __name__ == "__main__":
    print(main())
