"""Tasks that try to leave their sandbox; each does something real that fails if it is stopped."""

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import socket
import struct
import sys
from pathlib import Path

import numpy as np

from foretell.tasks import task

SANDBOX = {"isolation": "sandbox"}


@task(reads="a", writes="b", **SANDBOX)
def double(a, b):
    b[:] = 2 * a
    return float(a.sum())


@task(writes="data", **SANDBOX)
def add_one(data):
    """Add one to all in a tuple, a list or a dict of arrays and numbers."""
    for key, part in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(part, np.ndarray):
            part += 1
        else:
            data[key] = part + 1


@task(**SANDBOX)
def environment():
    return dict(os.environ)


@task(**SANDBOX)
def multiply(n):
    a = np.ones((n, n))
    return float((a @ a).sum())


@task(**SANDBOX)
def read_file(path):
    with Path(path).open() as file:
        return file.read()


@task(**SANDBOX)
def write_file(path):
    with Path(path).open("w") as file:
        file.write("escaped")


@task(**SANDBOX)
def remove_file(path):
    Path(path).unlink()


@task(**SANDBOX)
def empty_own_file():
    """Empty a file that may be read, by opening it for reading."""
    os.close(os.open(__file__, os.O_RDONLY | os.O_TRUNC))


@task(**SANDBOX)
def signal_by_descriptor(pid):
    """Have the kernel signal another process when something arrives on a descriptor."""
    fcntl.fcntl(2, fcntl.F_SETOWN, pid)


@task(**SANDBOX)
def copy_descriptor():
    """Do what is allowed with descriptors."""
    copy = os.dup(2)
    os.set_inheritable(copy, os.get_inheritable(copy))
    os.close(copy)
    return fcntl.fcntl(2, fcntl.F_GETFL) & os.O_ACCMODE


@task(**SANDBOX)
def connect(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"secret")


@task(**SANDBOX)
def execute():
    os.execv("/bin/sh", ["sh", "-c", "exit 0"])


@task(**SANDBOX)
def attach(pid):
    ctypes.CDLL(None).ptrace(16, pid, None, None)


@task(**SANDBOX)
def read_memory(pid, address):
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("PN", ctypes.addressof(buffer), 8)
    remote = struct.pack("PN", address, 8)
    n = ctypes.CDLL(None).process_vm_readv(pid, local, 1, remote, 1, 0)
    return n, buffer.raw


@task(**SANDBOX)
def read_memory_file(pid):
    with Path(f"/proc/{pid}/mem").open("rb") as file:
        return len(file.read(1))


@task(**SANDBOX)
def fork_bomb():
    for _ in range(20):  # bounded, in case it works
        if os.fork() == 0:
            os._exit(0)


@task(**SANDBOX)
def send_signal(pid):
    os.kill(pid, signal.SIGTERM)


@task(**SANDBOX)
def become_another():
    os.setuid(65534)


@task(**SANDBOX)
def keep_in_memory_file():
    return os.memfd_create("escaped")


@task(**SANDBOX)
def send_descriptor():
    one, _ = ctypes.CDLL(None).sendmsg(3, None, 0), 0
    return one


@task(**SANDBOX)
def use_io_uring():
    return ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120))


@task(**SANDBOX)
def use_32_bit_calls():
    return ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0)


@task(**SANDBOX)
def undo_confinement():
    return ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


@task(**SANDBOX)
def raise_error(text):
    raise ValueError(text)


@task(**SANDBOX)
def die():
    os._exit(3)


@task(isolation="sandbox", sealed=True)
def sealed_sum(a, b):
    return a + b


@task(isolation="sandbox", sealed=True)
def sealed_error(a):
    raise ValueError(f"the data is {a.tolist()}")


KEPT = []


@task(isolation="sandbox", sealed=True)
def sealed_keep(a):
    KEPT.append(a)


@task(**SANDBOX)
def tell_what_was_kept():
    return list(KEPT)


@task(isolation="sandbox", sealed=True)
def sealed_error_with_a_name(a):
    raise type(f"secret_{a}", (KeyError,), {"__module__": "builtins"})


@task(isolation="sandbox", sealed=True)
def sealed_exit(a):
    os._exit(a)


@task(isolation="sandbox", sealed=True)
def sealed_system_call(a):
    ctypes.CDLL(None).syscall(5000 + a)


def channel():
    """Find what this process answers with."""
    return next(one for one in gc.get_objects() if type(one).__name__ == "_Server")


@task(**SANDBOX)
def answer_with_a_header(header):
    """Answer with something that is described as a value and is none."""
    channel()._sealing.pack = lambda value: [header]


@task(**SANDBOX)
def answer_without_end():
    """Send the first argument of an answer, which never ends."""
    server, prefix = channel(), struct.pack("<QIBB", 1, 0, 3, 0)
    while True:
        sealed = server._send.seal(prefix, bytes(2**20))
        left = memoryview(struct.pack("<I", len(prefix + sealed)) + prefix + sealed)
        while left:
            left = left[os.write(server._descriptor, left) :]


@task(**SANDBOX)
def reserve(n_bytes):
    return np.empty(n_bytes, dtype=np.uint8).size


@task(isolation="sandbox", sealed=True)
def sealed_answer(a, kind, forge):
    answers = {
        "result": {"result": a + 0.5, "changes": []},
        "sealed as text": {"sealed": f"secret {a}"},
        "sealed as bytes": {"sealed": b"secret %d" % a},
        "sealed by another": {"sealed": channel()._sealing.OwnerKey().seal(a).content},
        "number": a,
        "error": {"error": f"secret {a}", "text": f"and {a}"},
        "errors": {"error": [f"secret {a}"], "text": f"and {a}"},
        "text": f"secret {a}",
    }
    channel().answer(1, kind, answers[forge])


@task(isolation="sandbox", sealed=True)
def sealed_number_of_chunks(a, kind):
    server = channel()
    found = server._sealing.frames(server._send, 1, kind, [b""] * (a - 2))
    *sent, last = found
    os.write(server._descriptor, b"".join(sent) + last[:-1] + bytes([last[-1] ^ 1]))


def within(value):
    """Return a value and all that dicts, lists, tuples and keys in it hold."""
    found = [value]
    for part in found:
        if isinstance(part, dict):
            found += part.values()
        elif isinstance(part, list | tuple):
            found += part
        elif isinstance(getattr(part, "key", None), bytes):
            found.append(part.key)
    return found


@task(isolation="sandbox", sealed=True)
def sealed_open_another(a, other):
    """Try all that could be a key, of whoever called this, on a sealed value of another task."""
    sealing, frame, names = channel()._sealing, sys._getframe(), []
    while frame is not None:
        names += frame.f_locals.values()
        frame = frame.f_back
    keys = [k for k in within([n for n in names if n is not names]) if isinstance(k, bytes)]
    opened = []
    for key in keys:
        with contextlib.suppress(sealing.IntegrityError, sealing.UsageError):
            opened.append(sealing.OwnerKey(key).open(sealing.Sealed(other)))
    return len(keys), opened


@task(isolation="sandbox", sealed=True, writes="b")
def sealed_write(b): ...


@task(isolation="process", writes="x")
def in_process(x):
    x[0] = os.getpid()


@task(isolation="process", writes="x", reads="other")
def in_process_too(x, other):
    x[0] = os.getpid()


@task(isolation="enclave")
def in_enclave(): ...


@task(isolation="enclave", allow="sandbox")
def in_enclave_or_sandbox(n):
    return n + 1


if __name__ == "__main__":
    raise SystemExit("a sandbox loads this file under another name")
