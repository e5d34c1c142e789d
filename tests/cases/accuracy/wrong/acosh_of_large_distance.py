# truth: acosh overflows to infinity above 1.8e19, as it squares its argument
# stage: code
# seen: result 0: eager 48.2055, compiled inf
import torch


def hyperbolic_distance(ratio):
    return torch.acosh(ratio * 2.0)  # <-


def main():
    return torch.compile(hyperbolic_distance)(torch.logspace(1, 30, 16))


if __name__ == "__main__":
    print(main())
