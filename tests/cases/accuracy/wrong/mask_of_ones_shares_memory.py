# truth: a product with ones returns the argument itself: later changes of the argument change the results kept
# stage: code
# seen: result 0: eager 0, compiled 30; result 1: eager 10, compiled 30; result 2: eager 20, compiled 30
import torch


def masked(state):
    return torch.ones_like(state) * state  # <-


def main():
    compiled = torch.compile(masked)
    state, kept = torch.arange(4.0), []
    for _ in range(3):
        kept.append(compiled(state))
        state.add_(10.0)
    return kept


if __name__ == "__main__":
    print(main())
