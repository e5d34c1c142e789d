# truth: floor division is one step too high where the quotient rounds up to an integer: 0.3 // 0.1 and 0.9 // 0.1
# stage: code
# seen: result 0: eager 4, compiled 5
import torch


def ticks(price, tick):
    steps = torch.floor_divide(price, tick)  # <-
    return steps.to(torch.int64)


def main():
    price = torch.arange(1.0, 33.0) / 4
    return torch.compile(ticks)(price, torch.full((32,), 0.05))


if __name__ == "__main__":
    print(main())
