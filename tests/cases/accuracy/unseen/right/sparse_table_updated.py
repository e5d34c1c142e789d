# truth: a sparse table outside of the compiled function changes between calls, and both modes see it
# stage: none
# seen: no difference beyond rounding
import torch

table = {"counts": torch.zeros(4, 3).to_sparse()}


def look_up(x):
    return x @ table["counts"].to_dense()


def main():
    table["counts"] = torch.zeros(4, 3).to_sparse()
    compiled = torch.compile(look_up)
    x = torch.eye(4)
    results = []
    for row in range(3):
        one_hot = torch.zeros(4, 3)
        one_hot[row, row] = 1.0
        table["counts"] = (table["counts"] + one_hot.to_sparse()).coalesce()
        results.append(compiled(x))
    return results


if __name__ == "__main__":
    print(main())
