"""Runs a command in a network namespace of its own that has nothing but loopback.

    python -m tests.real.netns -- pytest -m real tests/real

Owns the namespace and the check that one is in force; knows no agent. What runs here can reach no
address but this machine's own, whatever an agent tries.
"""

import ctypes
import errno
import os
import socket
import struct
import sys
from fcntl import ioctl
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
# struct ifreq: a name of 16 bytes and a union of 24, of which the flags are the first two.
_IFREQ = "16sh22x"


def enter() -> None:
    """Moves this process into a new namespace with loopback up.

    Without the right to do that it tries a user namespace, where it keeps its own user id.

    Raises:
        OSError: the kernel grants neither.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(_CLONE_NEWNET)
    except PermissionError:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket() as control:
        flags = _flags(control, "lo") | _IFF_UP
        ioctl(control, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags))


def ways_out() -> list[str]:
    """The interfaces besides loopback that are up; empty means that nothing can call out."""
    with socket.socket() as control:
        return [
            name
            for _, name in socket.if_nameindex()
            if name != "lo" and _flags(control, name) & _IFF_UP
        ]


def _flags(control: socket.socket, interface: str) -> int:
    answer = ioctl(control, _SIOCGIFFLAGS, struct.pack(_IFREQ, interface.encode(), 0))
    return int(struct.unpack(_IFREQ, answer)[1])


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def main(argv: list[str]) -> None:
    """Enters the namespace and becomes the command after `--`."""
    command = argv[argv.index("--") + 1 :] if "--" in argv else argv
    if not command:
        sys.exit("usage: python -m tests.real.netns -- COMMAND [ARGUMENT ...]")
    try:
        enter()
    except OSError as error:
        hint = "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone)"
        sys.exit(f"no private network namespace: {error.strerror}; {hint}")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {errno.errorcode.get(error.errno or 0, error)}")


if __name__ == "__main__":
    main(sys.argv[1:])
