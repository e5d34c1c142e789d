# truth: ldexp with an int64 exponent beyond 31 bits wraps around: 0 instead of infinity
# stage: code
# seen: result 0: eager inf, compiled 0
import torch


def rescale(mantissa, exponent):
    return torch.ldexp(mantissa, exponent)  # <-


def main():
    exponent = torch.tensor([1, 2, 2**31 - 1, 2**31, 2**33 + 3, -4, 0, 5])
    return torch.compile(rescale)(torch.linspace(0.5, 0.9, 8), exponent)


if __name__ == "__main__":
    print(main())
