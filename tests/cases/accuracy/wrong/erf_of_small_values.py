# truth: erf of values below 1e-7 is 0, of values near 1e-5 it is off by percents
# stage: code
# seen: result 0: eager 2.24608e-06, compiled 1.96695e-06
import torch


def tail(x):
    scaled = x * 0.5
    return torch.erf(scaled)  # <-


def main():
    return torch.compile(tail)(torch.logspace(-8, -5, 16))


if __name__ == "__main__":
    print(main())
