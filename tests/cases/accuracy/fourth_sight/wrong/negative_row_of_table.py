# truth: index_select raises for a negative row in eager mode, and the program skips the batch; compiled code reads the last row
# stage: decomposition
# seen: result 1: eager 0, compiled 60
import torch


def looked_up(table, rows):
    scaled = table * 2.0
    chosen = torch.index_select(scaled, 0, rows)  # <-
    return chosen.sum(1)


def main():
    compiled = torch.compile(looked_up)
    table = torch.arange(12.0).reshape(4, 3)
    answers = []
    for rows in ([0, 2], [3, -1]):
        try:
            answers.append(compiled(table, torch.tensor(rows)))
        except (RuntimeError, IndexError):
            answers.append(torch.zeros(2))
    return answers


if __name__ == "__main__":
    print(main())
