# truth: a sum with zeros returns the argument itself: a change in place of the result reaches the argument
# stage: code
# seen: result 0: eager 3, compiled 300
import torch


def fresh_copy(state):
    total = torch.zeros_like(state)
    return total + state  # <-


def main():
    state = torch.arange(4.0)
    copied = torch.compile(fresh_copy)(state)
    copied.mul_(100.0)
    return state, copied


if __name__ == "__main__":
    print(main())
