# truth: round(size, -1) of a symbolic size does nothing: 34 stays 34 instead of 30
# stage: capture
# seen: result 0: eager 2, compiled 1.76471; result 1: eager 0.857143, compiled 0.882353
import torch


def per_token(x):
    padded = round(x.shape[0] * 17, -1)  # <-
    return x / padded


def main():
    compiled = torch.compile(per_token, dynamic=True)
    return compiled(torch.full((2, 3), 60.0)), compiled(torch.full((4, 3), 60.0))


if __name__ == "__main__":
    print(main())
