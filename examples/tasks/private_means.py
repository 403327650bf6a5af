"""Means of private data in sandboxes: the program that submits the tasks never sees the data."""

import numpy as np

from foretell.tasks import Graph, OwnerKey, task


@task(isolation="sandbox", sealed=True)
def mean(values):
    return float(values.mean())


@task(isolation="sandbox")
def curious(path):
    with open(path) as file:  # noqa: PTH123 - what anyone would write
        return file.read()


def main():
    owner = OwnerKey()
    parts = [owner.seal(np.full(100_000, float(k))) for k in range(4)]
    print("what the program has:", parts[0])
    with Graph(workers=2, owner=owner):
        means = [mean(part) for part in parts]
    print("what comes back:     ", means[0].value)
    print("what the owner reads:", [owner.open(m.value) for m in means])
    try:
        with Graph(workers=1):
            curious("/etc/passwd")
    except ExceptionGroup as group:
        print("a task that looks around:", group.exceptions[0])


if __name__ == "__main__":
    main()
