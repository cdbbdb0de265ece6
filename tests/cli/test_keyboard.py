"""The terminal while single keys are read: taken, given back, taken again after a stop."""

import os
import pty
import signal
import termios

from agentctl.cli.keyboard import keys_alone


def by_line(fd: int) -> bool:
    return bool(termios.tcgetattr(fd)[3] & termios.ICANON)


def test_single_keys_are_read_again_after_ctrl_z_and_fg() -> None:
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        heard = signal.getsignal(signal.SIGCONT)
        with keys_alone(slave):
            assert not by_line(slave)
            termios.tcsetattr(slave, termios.TCSANOW, before)  # as a shell does
            os.kill(os.getpid(), signal.SIGCONT)
            assert not by_line(slave)
        assert by_line(slave)
        assert signal.getsignal(signal.SIGCONT) == heard
    finally:
        os.close(master)
        os.close(slave)
