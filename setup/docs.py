"""Keeps the output that Markdown files show what the programs print.

A block of output is a text fence directly below its marker:

    <!-- run: ch13 ledger --op rms_norm -->
    ```text
    (what the command prints)
    ```

`run:` is for output that no machine changes, `recorded:` for output rendered from a file in
results/ that its command names. Commands run in the repository's root, without a shell. A block is
what the command prints on stdout; where its exit code is not 0, what it prints on stderr and a line
with the code follow. Every text fence is such a block.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import machine
from terminal import Stop, say

TIME_LIMIT_S = 300

MARKER = re.compile(r"<!-- (run|recorded): (\S.*?) -->\s*$")
MARKER_LIKE = re.compile(r"\s*<!--\s*(run|recorded)\b")
FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})\s*(\S*)")


class Bad(Exception):
    """Why a block cannot have its output."""


@dataclass(frozen=True)
class Block:
    kind: str
    command: str
    line: int  # the marker's, counted from 1
    fence: str
    first: int  # lines[first:last] is the output
    last: int


# --- Markdown -------------------------------------------------------------------------------------


def find_blocks(lines) -> tuple:
    """The blocks among a file's lines, and what is wrong there, as (line counted from 1, text)."""
    blocks, wrong = [], []
    i = 0
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if not fence:
            wrong += wrong_marker(lines, i)
            i += 1
            continue
        last = i + 1
        while last < len(lines) and not closes(lines[last], fence[1]):
            last += 1
        if last == len(lines):
            wrong.append((i + 1, f"this {fence[1]} fence is never closed"))
        elif fence[2] == "text":
            marker = MARKER.match(lines[i - 1]) if i > 0 else None
            if marker:
                blocks.append(Block(marker[1], marker[2], i, fence[1], i + 1, last))
            else:
                allowed = "one below <!-- run: COMMAND --> or <!-- recorded: COMMAND -->"
                wrong.append((i + 1, f"text fence without a marker; allowed: {allowed}"))
        i = last + 1
    return blocks, wrong


def wrong_marker(lines, i: int) -> list:
    if not MARKER_LIKE.match(lines[i]):
        return []
    if not MARKER.match(lines[i]):
        allowed = "<!-- run: COMMAND --> or <!-- recorded: COMMAND -->, a line of its own"
        return [(i + 1, f'got "{lines[i].strip()}"; allowed: {allowed}')]
    fence = FENCE.match(lines[i + 1]) if i + 1 < len(lines) else None
    if not fence or fence[2] != "text":
        return [(i + 1, "a marker with no text fence directly below it")]
    return []


def closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and text == fence[0] * len(text)


def split(text: str) -> list:
    """Lines by newlines alone: str.splitlines() knows other ends, which would not come back."""
    return text.removesuffix("\n").split("\n") if text else []


def markdown_files() -> list:
    """Those that git tracks and that are here."""
    command = ["git", "ls-files", "-z", "--", "*.md"]
    listing = subprocess.run(command, cwd=machine.ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        reason = listing.stderr.decode(errors="replace").strip()
        raise Stop(f"git does not list the Markdown files of this folder: {reason}")
    paths = [machine.ROOT / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def read(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise Stop(f"{path}: {error}") from None


def replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    try:
        with open(new, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        shutil.copymode(path, new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


# --- commands of blocks ---------------------------------------------------------------------------


class Runner:
    """Runs the commands of blocks, each once. `programs` has their files by their names."""

    def __init__(self, programs: dict):
        self.programs = programs
        self.printed = functools.lru_cache(maxsize=None)(printed)

    def lines(self, block: Block) -> list:
        """What belongs into the block; raises Bad where nothing does."""
        try:
            lines = self.printed(self.resolve(block))
        except (OSError, subprocess.SubprocessError) as error:
            raise Bad(str(error)) from None
        if any(closes(line, block.fence) for line in lines):
            raise Bad(f"prints a line that ends a {block.fence} fence; allowed: a longer fence")
        return lines

    def resolve(self, block: Block) -> tuple:
        """What to execute."""
        try:
            name, *rest = shlex.split(block.command)
        except ValueError as error:
            raise Bad(str(error)) from None
        if block.kind == "recorded":
            check_recorded(rest)
        if name in self.programs:
            return (self.programs[name], *rest)
        if name == "./book" and rest[:1] != ["docs"]:
            return (sys.executable, str(machine.ROOT / "book"), *rest)
        raise Bad(
            f"unknown; allowed: a command of {', '.join(self.programs)}, ./book (not its docs)"
        )


def check_recorded(words) -> None:
    files = [word.rpartition("=")[2] for word in words]
    files = [file for file in files if file.startswith("results/")]
    if not files:
        raise Bad("names no recorded file; allowed: one in results/")
    for file in files:
        if not (machine.ROOT / file).is_file():
            raise Bad(f"{file}: no such file")


def printed(command) -> list:
    """The lines that a command prints, by the rule for blocks."""
    done = subprocess.run(
        command,
        cwd=machine.ROOT,
        env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        timeout=TIME_LIMIT_S,
        check=False,
    )
    if done.returncode < 0:
        raise subprocess.CalledProcessError(done.returncode, command)
    lines = split(done.stdout)
    if done.returncode > 0:
        lines += [*split(done.stderr), f"(exit code {done.returncode})"]
    return lines


# --- ./book docs ----------------------------------------------------------------------------------


def docs(files, write: bool, runner: Runner, targets: dict, make) -> int:
    """Holds files (none: all Markdown files) against what is printed now, or updates them.

    make(*targets) builds; `targets` says what a word of a command takes. Returns the exit code: 1
    where something is wrong with a file or, unless it was written, something differs.
    """
    paths = [Path(file).resolve() for file in files] or markdown_files()
    blocks = [block for path in paths for block in find_blocks(split(read(path)))[0]]
    words = [word for block in blocks for word in block.command.split()[:3]]
    needed = {targets[word] for word in words if word in targets}
    if needed:
        make(*sorted(needed))
    # Everything runs before a file is taken up: what its author types meanwhile is not lost.
    for block in blocks:
        with contextlib.suppress(Bad):
            runner.lines(block)

    differing, mistakes = 0, 0
    for path in paths:
        name = os.path.relpath(path, machine.ROOT)
        old = read(path)
        new, wrong = updated(old, runner)
        for line, text in wrong:
            say(f"{name}:{line}: {text}")
        mistakes += len(wrong)
        if new == old:
            continue
        differing += 1
        if write:
            replace(path, new)
            print(f"updated {name}")
        else:
            print("\n".join(difference(name, old, new)))

    verdict = "updated" if write else "that differ"
    remedy = " (./book docs --write updates them)" if differing and not write else ""
    say(f"outputs: {len(blocks)}; files {verdict}: {differing} of {len(paths)}{remedy}")
    return 1 if mistakes or (differing and not write) else 0


def updated(text: str, runner: Runner) -> tuple:
    """A file's text with each block as it is printed now, and what is wrong, which stays as is."""
    lines = split(text)
    blocks, wrong = find_blocks(lines)
    for block in reversed(blocks):  # from the end, so that the line numbers of the others hold
        try:
            lines[block.first : block.last] = runner.lines(block)
        except Bad as bad:
            wrong.append((block.line, f"{block.kind}: {block.command}: {bad}"))
    return "\n".join(lines) + ("\n" if text.endswith("\n") else ""), sorted(wrong)


def difference(name: str, old: str, new: str):
    return difflib.unified_diff(split(old), split(new), f"a/{name}", f"b/{name}", lineterm="")
