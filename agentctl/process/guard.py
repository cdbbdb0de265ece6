"""The leash: a tiny program that owns one agent's process tree and takes it down when told or let go.

It is run as a file with the standard library only, knows no daemon, no protocol and no event, and
no byte of the agent passes through it. Arguments: leash_fd status_fd grace_s -- argv…

The leash is a pipe whose only writer is the daemon. `T` on it means TERM the tree, `K` means KILL
the tree, its end means TERM, grace, KILL. SIGTERM, SIGINT and SIGHUP mean the same as its end.
JSON lines on the status pipe: {"pid"} or {"error","errno"}; {"pid","code","signal"}; {"empty"}.
"""

import contextlib
import ctypes
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# What an agent leaves behind has no work of its own to save: half a second to say goodbye.
STRAY_GRACE_S = 0.5
# First pause between two KILL rounds: short, so that a forking tree cannot outrun it.
KILL_PAUSE_S = 0.01
# Longest pause between two KILL rounds: what cannot be killed (root's, uninterruptible) costs little.
KILL_PAUSE_MAX_S = 0.5

LINUX = sys.platform == "linux"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def read_stat(pid: int) -> tuple[int, int] | None:
    """Return (parent pid, start time in clock ticks) of a process, or None when it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            stat = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return None
    fields = stat[stat.rfind(b")") + 2 :].split()
    return int(fields[1]), int(fields[19])


def descendants(root: int) -> list[tuple[int, int]]:
    """Return (pid, start time) of every process below root, parents before children."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double the guard's start time
        if name.isdigit() and (stat := read_stat(int(name))):
            children.setdefault(stat[0], []).append((int(name), stat[1]))
    found = children.pop(root, [])
    for pid, _ in found:  # grows while it is walked
        found += children.pop(pid, [])
    return found


def signal_exactly(pid: int, started: int, number: int) -> None:
    """Signal the process that was seen with this start time, never one that took over its pid."""
    with contextlib.suppress(OSError):
        try:
            handle = os.pidfd_open(pid)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                return
            if (stat := read_stat(pid)) and stat[1] == started:
                os.kill(pid, number)
            return
        try:
            # Asked after the handle is open: the same start time proves the handle is the right one.
            if (stat := read_stat(pid)) and stat[1] == started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def given_environment() -> dict[bytes, bytes]:
    """Return the environment as it was given: Python itself may have added LC_CTYPE to os.environ."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - no pathlib here
            items = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    pairs = (item.partition(b"=") for item in items)
    return {name: value for name, equals, value in pairs if equals}


def start_agent(argv: list[str], prctl: Callable[[int, int], None]) -> tuple[int, int]:
    """Fork and exec the agent; return (pid, 0) or (pid, errno of the failed exec)."""
    reader, writer = os.pipe()
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        become_agent(argv, prctl, guard, writer)
    os.close(writer)
    failure = os.read(reader, 16)
    os.close(reader)
    if failure:
        os.waitpid(pid, 0)
    return pid, int(failure or 0)


def become_agent(
    argv: list[str], prctl: Callable[[int, int], None], guard: int, writer: int
) -> None:
    """Turn the forked child into the agent; report a failed exec on the writer. Never returns."""
    try:
        # A session of its own: an agent that signals its whole group must not hit the guard.
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(127)
        # What is ignored stays ignored over exec: by Python SIGPIPE, by `daemon &` of a script SIGQUIT.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(argv[0], argv, given_environment())
    except OSError as error:
        os.write(writer, str(error.errno or errno.EINVAL).encode())
    except ValueError:
        os.write(writer, str(errno.EINVAL).encode())
    finally:
        os._exit(127)


class Guard:
    """One agent's tree, from its start until nothing of it is left."""

    def __init__(self, leash: int, status: int, grace_s: float) -> None:
        self.leash = leash
        self.status = status
        self.grace_s = grace_s
        self.agent = 0
        self.agent_gone = False
        self.stop_asked = False
        self.kill_at: float | None = None
        self.pause_s = KILL_PAUSE_S
        self.wake_reader, wake_writer = os.pipe()
        for fd in (leash, status):
            os.set_inheritable(fd, False)
        for fd in (self.wake_reader, wake_writer):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self.on_child)
        for number in STOP_SIGNALS:
            signal.signal(number, self.on_stop_signal)

    def on_child(self, *_: object) -> None:
        """Nothing to do: that the signal came wakes the loop."""

    def on_stop_signal(self, *_: object) -> None:
        self.stop_asked = True

    def say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more: the daemon is dead
            os.write(self.status, line.encode() + b"\n")

    def start(self, argv: list[str]) -> bool:
        """Start the agent and let go of its stdio; False when it could not be executed."""
        libc = ctypes.CDLL(None) if LINUX else None

        def prctl(option: int, value: int) -> None:
            if libc is not None:
                libc.prctl(option, value, 0, 0, 0)

        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.agent, failure = start_agent(argv, prctl)
        # The agent alone holds its stdio, so that the end of a pipe means what it says.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        if failure:
            name = errno.errorcode.get(failure, "EINVAL")
            self.say(f'{{"error":"{name}","errno":{failure}}}')
            return False
        self.say(f'{{"pid":{self.agent}}}')
        return True

    def run(self) -> None:
        """Watch leash, signals and children until the tree is empty."""
        poll = select.poll()
        poll.register(self.leash, select.POLLIN)
        poll.register(self.wake_reader, select.POLLIN)
        while not self.reap():
            if self.stop_asked:
                self.stop_asked = False
                self.stop(self.grace_s)
            for fd, _ in poll.poll(self.next_wait_ms()):
                if fd == self.wake_reader:
                    with contextlib.suppress(BlockingIOError):
                        os.read(fd, 4096)
                elif not self.obey(os.read(fd, 64)):
                    poll.unregister(fd)
        self.say('{"empty":true}')

    def obey(self, commands: bytes) -> bool:
        """Do what the daemon says; False when it let go of the leash."""
        if not commands:
            self.stop(self.grace_s)
            return False
        if b"K" in commands:
            self.kill_at = time.monotonic()
        elif b"T" in commands:
            self.signal_tree(signal.SIGTERM)
        return True

    def stop(self, grace_s: float) -> None:
        """TERM everything now; whatever is left after the grace is killed."""
        end = time.monotonic() + grace_s
        self.kill_at = end if self.kill_at is None else min(self.kill_at, end)
        self.signal_tree(signal.SIGTERM)

    def next_wait_ms(self) -> float | None:
        """Kill when it is time to; return how long to sleep (ms), None for until something happens."""
        if self.kill_at is None:
            return None
        left = self.kill_at - time.monotonic()
        if left > 0:
            return left * 1000 + 1
        self.signal_tree(signal.SIGKILL)
        self.pause_s = min(self.pause_s * 1.3, KILL_PAUSE_MAX_S)
        return self.pause_s * 1000

    def signal_tree(self, number: int) -> None:
        if not LINUX:
            with contextlib.suppress(OSError):
                os.killpg(self.agent, number)
            return
        for pid, started in descendants(os.getpid()):
            signal_exactly(pid, started, number)
            if number == signal.SIGTERM:  # a stopped process takes its TERM only when it goes on
                signal_exactly(pid, started, signal.SIGCONT)

    def reap(self) -> bool:
        """Collect every dead child; True when the tree is empty."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return LINUX or self.group_is_gone()
            if pid == 0:
                return False
            if pid == self.agent and not self.agent_gone:
                self.agent_gone = True
                code = os.waitstatus_to_exitcode(status)
                told = (
                    f'"code":{code},"signal":null' if code >= 0 else f'"code":null,"signal":{-code}'
                )
                self.say(f'{{"pid":{pid},{told}}}')
                self.stop(STRAY_GRACE_S)

    def group_is_gone(self) -> bool:
        try:
            os.killpg(self.agent, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def main(arguments: list[str]) -> int:
    if len(arguments) < 5 or arguments[3] != "--":
        return 2
    leash, status, grace_s, _, *argv = arguments
    guard = Guard(int(leash), int(status), float(grace_s))
    if not guard.start(argv):
        return 127
    guard.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
