# truth: a write by index and the shifted read are fused into one loop in place: later rows read changed values
# stage: code
# seen: result 0: eager 72, compiled 160
import torch


def propagate(x):
    x.index_put_((torch.arange(x.shape[0]),), x + 1.0)
    x.add_(x.roll(1, 0))  # <-
    return x


def main():
    x = torch.arange(40.0).reshape(5, 8)
    return torch.compile(propagate)(x)


if __name__ == "__main__":
    print(main())
