# truth: rows are shifted down through a clone; compiled code drops the clone and reads rows that it has written
# stage: code
# seen: result 0: eager 16, compiled 10; result 1: eager 16, compiled 10
import torch


def push(history):
    history[1:] = history[:-1].clone()  # <-
    return history


def main():
    history = torch.arange(48.0).reshape(8, 6)
    return torch.compile(push)(history), history


if __name__ == "__main__":
    print(main())
