# truth: a clone between two writes is dropped: the copy kept shows the second write, too
# stage: code
# seen: result 0: eager 5, compiled 7
import torch


def rollback(state, first, second):
    state[1] = first
    kept = state.clone()  # <-
    state[1] = second
    return kept


def main():
    state = torch.arange(12.0).reshape(3, 4)
    return torch.compile(rollback)(state, torch.full((4,), 5.0), torch.full((4,), 7.0)), state


if __name__ == "__main__":
    print(main())
