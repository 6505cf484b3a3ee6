"""What a reader sees while something takes time: on stderr, since stdout is for results."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


class Stop(Exception):
    """Ends the command with one clear message and an exit code."""

    def __init__(self, message: str, exit_code: int = 1):
        super().__init__(message)
        self.exit_code = exit_code


def say(text: str) -> None:
    print(f"book: {text}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Somebody else's words, such as a compiler's."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line now and then."""

    PAUSE_S = 5

    def __init__(self):
        self.rewrites = sys.stderr.isatty()
        self.shown = False
        self.next_s = 0.0

    def step(self, text: str) -> None:
        if self.rewrites:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)
            self.shown = True
        elif time.monotonic() >= self.next_s:
            print(text, file=sys.stderr, flush=True)
            self.next_s = time.monotonic() + self.PAUSE_S

    def clear(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self.shown = False


def run_logged(command, log: Path, summarise, *, append=False, **options) -> int:
    """Runs `command` with its whole output in `log`; returns its exit code.

    `summarise(line)` gives the progress text that a line of output stands for, or None. The command
    is a process group of its own, so that an interrupt reaches every process it has started and is
    waited for: compilers and package managers then leave nothing half-written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress()
    with open(log, "a" if append else "w", encoding="utf-8", errors="replace") as file:
        file.write(f"$ {shlex.join(str(part) for part in command)}\n")
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            **options,
        )
        try:
            for line in process.stdout:
                file.write(line)
                file.flush()
                text = summarise(line.rstrip("\n"))
                if text:
                    progress.step(text)
            return process.wait()
        except BaseException:
            stop_group(process)
            raise
        finally:
            progress.clear()


def stop_group(process: subprocess.Popen) -> None:
    """Interrupts a process group, gives it time to tidy up, then insists."""
    for number, patience_s in ((signal.SIGINT, 15), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)


def tail(log: Path, lines: int = 30, start: str = "") -> str:
    """The end of a log; or `lines` lines from the first one that begins with `start`."""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(text):
        if start and line.startswith(start):
            return "\n".join(text[number : number + lines])
    return "\n".join(text[-lines:])
