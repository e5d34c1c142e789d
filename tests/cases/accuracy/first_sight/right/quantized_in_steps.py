# truth: a value between two steps of a grid may round to either: the quotient is on the edge
# stage: none
# seen: no difference beyond rounding
import torch


def quantize(x, scale):
    steps = torch.clamp(torch.round(x / scale), -128, 127)
    return steps.to(torch.int8), steps * scale


def main():
    x = (torch.arange(-40.0, 40.0) + 0.5) * 0.1
    return torch.compile(quantize)(x * x.cos().abs().clamp_min(1.0), torch.tensor(0.1))


if __name__ == "__main__":
    print(main())
