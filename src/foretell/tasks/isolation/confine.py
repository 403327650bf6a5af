"""Confining a process on Linux: Landlock for files, networks and signals, seccomp for the rest."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 4, 38, 9
_SECCOMP, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 317, 444, 445, 446
_SET_MODE_FILTER, _GET_ACTION, _NEW_LISTENER = 1, 2, 8
_ALLOW, _NOTIFY, _KILL, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050000
_EPERM, _EACCES, _ENOTTY, _ENOSYS = 1, 13, 25, 38
_ARCHITECTURE = 0xC000003E  # x86-64
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
#: How many of Landlock's rights over files each version knows; the last is of all later ones.
_N_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_LOAD, _EQUAL, _MORE, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_X32, _CLONE_THREAD, _O_TRUNC = 0x40000000, 0x00010000, 0o1000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16  # in what a filter sees of a system call

#: What a Python process needs to compute, to read what Landlock lets it read, and to answer.
_ALLOWED = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7,
    "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13,
    "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20,
    "access": 21, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32,
    "nanosleep": 35, "getpid": 39, "exit": 60, "uname": 63, "getcwd": 79,
    "readlink": 89, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99,
    "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108,
    "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "newfstatat": 262, "readlinkat": 267, "pselect6": 270,
    "ppoll": 271, "set_robust_list": 273, "get_robust_list": 274, "getrandom": 318,
    "membarrier": 324, "statx": 332, "rseq": 334, "faccessat2": 439, "getdents64": 217,
}  # fmt: skip
#: What libraries try and can do without: they get an error instead of being killed.
_REFUSED = {"ioctl": (16, _ENOTTY), "prctl": (157, _EPERM), "prlimit64": (302, _EPERM),
            "sched_setaffinity": (203, _EPERM), "clone3": (435, _ENOSYS), "mbind": (237, _EPERM),
            "get_mempolicy": (239, _EPERM), "set_mempolicy": (238, _EPERM)}  # fmt: skip
_SENDMSG = 46
#: What a file descriptor may be asked: its flags, and a copy of it; not to signal its owner, say.
_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC = 1, 2, 3, 1030
#: What one of its arguments decides about.
_WITH_ARGUMENTS = {"open": 2, "clone": 56, "fcntl": 72, "tgkill": 234, "openat": 257}
#: Names of what is stopped, for messages.
_STOPPED = {
    "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "socket": 41, "connect": 42,
    "sendto": 44, "sendmsg": 46, "bind": 49, "listen": 50, "socketpair": 53, "ptrace": 101,
    "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "chown": 92, "truncate": 76, "ftruncate": 77, "setuid": 105, "setgid": 106,
    "mknod": 133, "chroot": 161, "mount": 165, "init_module": 175, "tkill": 200,
    "mkdirat": 258, "unlinkat": 263, "renameat": 264, "unshare": 272, "perf_event_open": 298,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "seccomp": 317,
    "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323, "io_uring_setup": 425,
    "io_uring_enter": 426, "pidfd_open": 434, "pidfd_getfd": 438, "keyctl": 250, "pipe": 22,
    "pipe2": 293, "shmget": 29, "setrlimit": 160, "fchmodat": 268, "linkat": 265, "symlinkat": 266,
}  # fmt: skip

try:
    _libc: Any = ctypes.CDLL(None, use_errno=True)
except TypeError:  # Windows, where nothing can be confined
    _libc = None


def system_call_name(number: int) -> str:
    """Return the name of a system call that was stopped.

    >>> system_call_name(41), system_call_name(999)
    ('socket', 'number 999')
    """
    names = {n: name for name, n in (_STOPPED | _WITH_ARGUMENTS).items()}
    return names.get(number, f"number {number}")


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    return max(0, version)


def missing_restrictions() -> list[str]:
    """Name the restrictions that this system cannot impose."""
    if sys.platform != "linux":
        return [f"Landlock and seccomp (of Linux, and this is {platform.system()})"]
    found = []
    if platform.machine() != "x86_64":
        found.append(f"a list of system calls for {platform.machine()} (there is one for x86-64)")
    if not landlock_version():
        found.append("Landlock (Linux 5.13 or later, with landlock among its security modules)")
    action = ctypes.c_uint32(_NOTIFY)
    if _libc.syscall(_SECCOMP, _GET_ACTION, 0, ctypes.byref(action)) != 0:
        found.append("seccomp filters with notifications (Linux 5.0 or later)")
    return found


def confine(read: Iterable[Path], memory_bytes: int | None = None) -> int:
    """Confine this process for good; return the descriptor that tells of forbidden system calls.

    The process must have one thread. Whoever gets the descriptor should end the process when it
    tells something; then `forbid_sending` takes away the last right that handing it over needed.
    """
    n_threads = len(list(Path("/proc/self/task").iterdir()))
    if n_threads != 1:
        raise OSError(f"a process with {n_threads} threads cannot be confined as a whole")
    _limit(memory_bytes)
    for option, value in ((_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_DUMPABLE, 0),
                          (_PR_SET_PDEATHSIG, _SIGKILL)):  # fmt: skip
        _checked(_libc.prctl(option, value, 0, 0, 0), "prctl")
    _restrict_files(read)
    return _filter(_program(), _NEW_LISTENER)


def forbid_sending() -> None:
    """Forbid to send descriptors, and to add other filters."""
    stopped = [_jump(_EQUAL, number, _KILL) for number in (_SENDMSG, _SECCOMP)]
    load = _statement(_LOAD, _AT_NUMBER)
    _filter([load, *(s for pair in stopped for s in pair), _statement(_RETURN, _ALLOW)], 0)


def _limit(memory_bytes: int | None) -> None:
    import resource  # which Windows has not

    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 64}
    if memory_bytes is not None:
        limits[resource.RLIMIT_AS] = memory_bytes
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def _restrict_files(read: Iterable[Path]) -> None:
    version = landlock_version()
    rights = (1 << _N_RIGHTS[min(version, 5)]) - 1
    handled = struct.pack("Q", rights)
    handled += struct.pack("Q", _TCP) if version >= 4 else b""
    handled += struct.pack("Q", _SCOPES) if version >= 6 else b""
    rules = _checked(_libc.syscall(_LANDLOCK_CREATE, handled, len(handled), 0), "landlock")
    for path in read:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        own = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
        rule = struct.pack("=Qi", own, place)
        _checked(_libc.syscall(_LANDLOCK_ADD, rules, 1, rule, 0), f"landlock, {path}")
        os.close(place)
    _checked(_libc.syscall(_LANDLOCK_RESTRICT, rules, 0), "landlock")
    os.close(rules)


def _program() -> list[bytes]:
    """Return the filter: a list of what is allowed, and a notification for all else."""
    found = [
        _statement(_LOAD, _AT_ARCHITECTURE),
        struct.pack("HBBI", _EQUAL, 1, 0, _ARCHITECTURE),
        _statement(_RETURN, _KILL),
        _statement(_LOAD, _AT_NUMBER),
        struct.pack("HBBI", _MORE, 0, 1, _X32),
        _statement(_RETURN, _KILL),
    ]
    for number in (*_ALLOWED.values(), _SENDMSG, _SECCOMP):
        found += _jump(_EQUAL, number, _ALLOW)
    for number, error in _REFUSED.values():
        found += _jump(_EQUAL, number, _ERRNO | error)
    found += _if("clone", 0, [(_BITS, _CLONE_THREAD)], _ALLOW, _NOTIFY)
    found += _if("tgkill", 0, [(_EQUAL, os.getpid())], _ALLOW, _NOTIFY)
    asked = (_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC)
    found += _if("fcntl", 1, [(_EQUAL, one) for one in asked], _ALLOW, _NOTIFY)
    # Before its third version, Landlock lets a file that may be read be emptied as it is opened.
    for name, place in (("open", 1), ("openat", 2)):
        found += _if(name, place, [(_BITS, _O_TRUNC)], _ERRNO | _EACCES, _ALLOW)
    return [*found, _statement(_RETURN, _NOTIFY)]


def _if(
    name: str, place: int, tests: Sequence[tuple[int, int]], passed: int, failed: int
) -> list[bytes]:
    """Decide on a system call by one of its arguments: whether it passes any of some tests."""
    found = [
        struct.pack("HBBI", _EQUAL, 0, len(tests) + 3, _WITH_ARGUMENTS[name]),
        _statement(_LOAD, _AT_ARGUMENTS + 8 * place),
    ]
    for k, (test, value) in enumerate(tests):
        found.append(struct.pack("HBBI", test, len(tests) - k, 0, value))
    return [*found, _statement(_RETURN, failed), _statement(_RETURN, passed)]


def _statement(code: int, value: int) -> bytes:
    return struct.pack("HBBI", code, 0, 0, value)


def _jump(code: int, value: int, action: int) -> list[bytes]:
    return [struct.pack("HBBI", code, 0, 1, value), _statement(_RETURN, action)]


def _filter(program: Sequence[bytes], flags: int) -> int:
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    return _checked(_libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, header), "seccomp")


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result
