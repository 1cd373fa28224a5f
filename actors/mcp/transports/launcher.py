"""Launcher of one MCP server: a process of its own between the Computer and the server, run as a script.

It starts the server, waits for it, and ends it with all its descendants as soon as the Computer
says so, closes the control socket or dies, or the server itself exits. One of it lives beside
every server, so it imports little and nothing of ours; being single-threaded it may fork.

Control socket, from the Computer: one order (4 bytes length, then fields separated by NUL: pid of
the Computer, grace in milliseconds, working directory, number of arguments, arguments, environment
entries). Afterwards `s` or end of file stops the server with grace, `k` kills it. To the Computer:
one line, `P <pid>` once the server runs, `D <errno>` or `E <errno>` when its directory or its command
does not work. The launcher's own exit status is that of the server. Spec: R-MCP-26, DEC-8.
"""

# ruff: noqa: SIM105 - contextlib would be one more import in a process that should stay small

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PARENT_DIED = signal.SIGUSR1
MEANT_FOR_THE_SERVER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
LEFTOVER_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for what a server left behind when it exited."""
FINAL_WAIT = 1.0
"""Seconds to wait for killed processes to disappear; only one stuck in the kernel takes longer."""

LINUX = sys.platform.startswith("linux")


def main() -> None:
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    parent, grace, directory, arguments, environment = read_order(control)
    wakeup = listen_to_signals()
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, PARENT_DIED)
    if os.getppid() != parent:  # it died before the signal was armed
        os._exit(0)
    server = start(control, directory, arguments, environment)
    detach_from_pipes()
    guard = Guard(control, wakeup, parent, server, grace)
    status = guard.watch()
    end_descendants(server, wakeup, 0.0 if guard.killed else LEFTOVER_GRACE)
    leave(status)


def read_order(control: int) -> tuple[int, float, bytes, list[bytes], dict[bytes, bytes]]:
    size = int.from_bytes(receive(control, 4), "big")
    parent, grace, directory, count, *rest = receive(control, size).split(b"\0")
    arguments = rest[: int(count)]
    environment: dict[bytes, bytes] = {}
    for entry in rest[int(count) :]:
        name, _, value = entry.partition(b"=")
        environment[name] = value
    return int(parent), int(grace) / 1000, directory, arguments, environment


def receive(control: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(control, size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def listen_to_signals() -> int:
    """A descriptor that becomes readable whenever a child ends or the Computer may have died."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, PARENT_DIED):
        signal.signal(number, lambda *_: None)
    for number in MEANT_FOR_THE_SERVER:
        signal.signal(number, signal.SIG_IGN)  # signalling the whole session must not take the guard away
    return reading


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(control: int, directory: bytes, arguments: list[bytes], environment: dict[bytes, bytes]) -> int:
    """Pid of the server, leader of a process group of its own. Ends the launcher when it cannot run."""
    guard = os.getpid()
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(guard, tell, directory, arguments, environment)
    os.close(tell)
    failure = os.read(told, 16)
    os.close(told)
    if failure:
        os.waitpid(pid, 0)
        say(control, failure)
        os._exit(127)
    say(control, b"P %d" % pid)
    return pid


def become(guard: int, tell: int, directory: bytes, arguments: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Turns the forked child into the server."""
    stage = b"D"
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (*MEANT_FOR_THE_SERVER, *IGNORED_BY_PYTHON, signal.SIGCHLD, PARENT_DIED):
            signal.signal(number, signal.SIG_DFL)
        if LINUX:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(0)
        if directory:
            os.chdir(directory)
        stage = b"E"
        os.execvpe(arguments[0], arguments, environment)
    except OSError as error:
        os.write(tell, b"%s %d" % (stage, error.errno or 0))
    finally:
        os._exit(127)


def say(control: int, line: bytes) -> None:
    try:
        os.write(control, line + b"\n")
    except OSError:
        pass  # the Computer is gone; end of file on the socket says so too


def detach_from_pipes() -> None:
    """Gives up the server's pipes, so that their other ends see when the server closes them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


class Guard:
    """Waits for the server and stops it when told to, in steps: SIGTERM after the grace, SIGKILL after another."""

    def __init__(self, control: int, wakeup: int, parent: int, server: int, grace: float) -> None:
        self.control, self.wakeup, self.parent, self.server, self.grace = control, wakeup, parent, server, grace
        self.steps: list[tuple[float, int]] = []
        self.stopping = self.killed = False
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.poll.register(wakeup, select.POLLIN)

    def watch(self) -> int:
        """Wait status of the server."""
        while True:
            timeout = max(0.0, self.steps[0][0] - time.monotonic()) * 1000 if self.steps else None
            ready = dict(self.poll.poll(timeout))
            if self.wakeup in ready:
                drain(self.wakeup)
            status = reap(self.server)
            if status is not None:
                return status
            if self.control in ready:
                self.obey()
            if os.getppid() != self.parent:
                self.stop()
            while self.steps and self.steps[0][0] <= time.monotonic():
                self.signal(self.steps.pop(0)[1])

    def obey(self) -> None:
        try:
            order = os.read(self.control, 1)
        except OSError:
            order = b""
        if order == b"k":
            self.signal(signal.SIGKILL)
        elif order in (b"s", b""):
            self.stop()
        if not order:
            self.poll.unregister(self.control)

    def stop(self) -> None:
        if not self.stopping:
            self.stopping = True
            now = time.monotonic()
            self.steps = [(now + self.grace, signal.SIGTERM), (now + 2 * self.grace, signal.SIGKILL)]

    def signal(self, number: int) -> None:
        self.killed = self.killed or number == signal.SIGKILL
        signal_group(self.server, number)


def drain(wakeup: int) -> None:
    try:
        while os.read(wakeup, 4096):
            pass
    except BlockingIOError:
        pass


def reap(server: int) -> int | None:
    """Collects every child that ended; the wait status of the server if it was among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == server:
            found = status


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def end_descendants(server: int, wakeup: int, grace: float) -> None:
    """Ends what the server left behind. Orphans below us became our children, so each round reaches one generation."""
    signal_group(server, signal.SIGTERM)
    kill_after = time.monotonic() + grace
    give_up = kill_after + FINAL_WAIT
    told: set[int] = set()
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    while (now := time.monotonic()) < give_up:
        reap(server)
        left = children()
        if not left:
            break
        for pid in left:
            if now >= kill_after:
                send(pid, signal.SIGKILL)
            elif pid not in told:
                told.add(pid)
                send(pid, signal.SIGTERM)
        poll.poll(20)
        drain(wakeup)
    signal_group(server, signal.SIGKILL)


def children() -> list[int]:
    if not LINUX:
        return []
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_of(pid) == os.getpid()]


def parent_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def leave(status: int) -> None:
    """Exits the way the server did."""
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    import resource  # noqa: PLC0415 - paid for only by the rare server that dies of a signal

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = os.WTERMSIG(status)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main()
