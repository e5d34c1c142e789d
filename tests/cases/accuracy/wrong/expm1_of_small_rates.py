# truth: expm1 of small values is computed as exp - 1: errors of 20 percent
# stage: code
# seen: result 0: eager 8.33334e-07, compiled 7.15256e-07
import torch


def growth(rate, years):
    yearly = rate / 12.0
    return torch.expm1(yearly) * years  # <-


def main():
    rate = torch.linspace(1e-6, 5e-6, 16)
    return torch.compile(growth)(rate, torch.full((16,), 2.0))


if __name__ == "__main__":
    print(main())
