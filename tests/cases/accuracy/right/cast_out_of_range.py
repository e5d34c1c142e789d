# truth: a float that does not fit into int8 is cast: the result is not defined, eager wraps and compiled code saturates
# stage: none
# seen: result 0: eager -116, compiled 127
import torch


def quantize(x):
    codes = torch.zeros(32, dtype=torch.int8)
    codes[:] = x * 20.0
    return codes


def main():
    return torch.compile(quantize)(torch.arange(32.0))


if __name__ == "__main__":
    print(main())
