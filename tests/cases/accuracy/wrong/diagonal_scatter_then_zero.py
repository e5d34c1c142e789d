# truth: diagonal_scatter reuses the memory of its argument, which is zeroed afterwards
# stage: code
# seen: result 0: eager 15, compiled 0
import torch


def with_diagonal(matrix, values):
    result = torch.diagonal_scatter(matrix, values)  # <-
    matrix.zero_()
    return result


def main():
    matrix = torch.arange(1.0, 17.0).reshape(4, 4)
    return torch.compile(with_diagonal)(matrix, torch.full((4,), -1.0)), matrix


if __name__ == "__main__":
    print(main())
