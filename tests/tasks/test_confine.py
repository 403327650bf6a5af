"""The filter of system calls, run step by step on made-up calls, as a kernel does."""

import fcntl
import os
import struct

import pytest

from foretell.tasks.isolation import confine

if confine.missing_restrictions():
    pytest.skip("there is no such filter here", allow_module_level=True)

X86_64 = 0xC000003E
ALLOW, NOTIFY, KILL, ERRNO = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050000
EACCES = 13
OPEN, OPENAT, FCNTL = 2, 257, 72


def decided(number, *arguments, architecture=X86_64):
    """Return what the filter answers to a system call."""
    places = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    call = struct.pack("<iIQ6Q", number, architecture, 0, *places)
    program = [struct.unpack("HBBI", one) for one in confine._program()]
    found = place = 0
    while True:
        code, if_so, if_not, value = program[place]
        place += 1
        if code == 0x20:  # load
            (found,) = struct.unpack_from("<I", call, value)
        elif code == 0x06:  # return
            return value
        else:
            tests = {0x15: found == value, 0x35: found >= value, 0x45: bool(found & value)}
            place += if_so if tests[code] else if_not


@pytest.mark.parametrize("flags", [os.O_TRUNC, os.O_WRONLY | os.O_TRUNC | os.O_CREAT])
def test_no_file_is_emptied_as_it_is_opened_whatever_landlock_knows(flags):
    assert decided(OPEN, 0, flags) == decided(OPENAT, 0, 0, flags) == ERRNO | EACCES
    flags &= ~os.O_TRUNC
    assert decided(OPEN, 0, flags) == decided(OPENAT, 0, 0, flags) == ALLOW  # to Landlock's rules


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (fcntl.F_GETFD, ALLOW),
        (fcntl.F_SETFD, ALLOW),
        (fcntl.F_GETFL, ALLOW),
        (fcntl.F_DUPFD_CLOEXEC, ALLOW),
        (fcntl.F_DUPFD, NOTIFY),
        (fcntl.F_SETFL, NOTIFY),
        (fcntl.F_SETOWN, NOTIFY),
        (fcntl.F_SETSIG, NOTIFY),
        (fcntl.F_SETLEASE, NOTIFY),
        (fcntl.F_NOTIFY, NOTIFY),
        (fcntl.F_SETLK, NOTIFY),
    ],
)
def test_descriptors_are_asked_for_their_flags_and_copied_and_nothing_else(asked, expected):
    assert decided(FCNTL, 1, asked) == expected


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (0, (), ALLOW),  # read
        (41, (), NOTIFY),  # socket
        (16, (), ERRNO | 25),  # ioctl
        (56, (0x10000,), ALLOW),  # clone, of a thread
        (56, (0,), NOTIFY),  # of a process
        (234, (os.getpid(),), ALLOW),  # tgkill, of itself
        (234, (1,), NOTIFY),  # of another
        (0x40000000, (), KILL),  # x32
    ],
)
def test_other_calls_are_decided_on_as_they_were(number, arguments, expected):
    assert decided(number, *arguments) == expected
    assert decided(number, *arguments, architecture=0x40000003) == KILL
