# truth: the remainder of large positions is computed as a - b * floor(a / b): the phase is off by up to 0.06
# stage: code
# seen: result 0: eager 0.537299, compiled 0.557042
import torch


def rotation(position):
    phase = torch.remainder(position, 6.2831855)  # <-
    return phase / 6.2831855


def main():
    position = torch.arange(16.0) * 100_003.0 + 1_000_000.0
    return torch.compile(rotation)(position)


if __name__ == "__main__":
    print(main())
