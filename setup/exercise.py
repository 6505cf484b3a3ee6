"""Exercises: lists and explains them, builds what the reader wrote, and runs the program that grades it."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import build
import machine
from terminal import Stop, say

STATE = machine.ROOT / "build" / "exercises.json"
USAGE = "./book exercise [CH [N [--hint | --solution | --reset | --watch]]]"
POLL_S = 0.2


class Exercise:
    """`number` of a chapter; its files lie in the chapter's folder."""

    def __init__(self, chapter: str, file: Path):
        self.file = file
        self.folder = file.parent
        self.number = int(file.name[:2])
        self.target = f"{chapter}_exercise_{file.name[:2]}"
        self.program = build.Build().folder / file.parent.parent.name / self.target
        self.skeleton = self.folder / "skeletons" / file.name
        self.solution = self.folder / "solutions" / file.name
        self.title, self.sections = read_text(file.with_suffix(".md"))
        if not file.exists():
            shutil.copyfile(self.skeleton, file)

    def hints(self) -> list:
        return [self.sections[name] for name in sorted(self.sections) if name.startswith("Hint ")]

    # --- what is remembered: hints shown, and the text that was found to be done ------------------

    def recall(self) -> dict:
        known = read_state().get(self.target)
        return known if isinstance(known, dict) else {}

    def remember(self, **what) -> None:
        state = {**read_state(), self.target: {**self.recall(), **what}}
        STATE.parent.mkdir(exist_ok=True)
        temporary = STATE.with_suffix(".tmp")
        temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
        temporary.replace(STATE)

    def fingerprint(self) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    def standing(self) -> str:
        if self.file.read_bytes() == self.skeleton.read_bytes():
            return "not started"
        return "done" if self.recall().get("done") == self.fingerprint() else "begun"


def read_state() -> dict:
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def read_text(file: Path) -> tuple:
    """The title of a Markdown file and its `## ` sections, by name."""
    title, *parts = re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = {}
    for part in parts:
        name, _, text = part.partition("\n")
        sections[name.strip()] = text.strip()
    return title.strip().lstrip("# "), sections


def exercises(chapter: str, folder: str) -> list:
    here = machine.ROOT / folder / "exercises"
    names = sorted(file.name for file in here.glob("skeletons/[0-9][0-9]_*.cpp"))
    return [Exercise(chapter, here / name) for name in names]


def shown(path: Path) -> str:
    return str(path.relative_to(machine.ROOT))


# --- the command ----------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Stop(f"{message}; usage: {USAGE}", exit_code=2)


def command(arguments, chapters: dict, chapter_named) -> int:
    """`./book exercise ...`, where `chapters` maps names to folders. Returns the exit code."""
    parser = Parser(prog="./book exercise", allow_abbrev=False, usage=USAGE)
    parser.add_argument("chapter", nargs="?", metavar="CH", help="none: exercises of every chapter")
    parser.add_argument("number", nargs="?", metavar="N", help="none: the chapter's exercises")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--hint", action="store_true", help="the next of its hints")
    what.add_argument("--solution", action="store_true", help="how it can be solved")
    what.add_argument("--reset", action="store_true", help="the skeleton again; what was there is kept")
    what.add_argument("--watch", action="store_true", help="grade whenever the file is saved")
    given = parser.parse_args(arguments)
    wanted = [chapter_named(given.chapter)] if given.chapter else list(chapters)
    found = {chapter: exercises(chapter, chapters[chapter]) for chapter in wanted}
    if given.number is None:
        if given.hint or given.solution or given.reset or given.watch:
            raise Stop(f"N: got none; allowed: an exercise's number; usage: {USAGE}", exit_code=2)
        list_exercises(found)
        return 0
    exercise = numbered(wanted[0], given.number, found[wanted[0]])
    if given.hint:
        return show_hint(exercise)
    if given.solution:
        return show_solution(exercise)
    if given.reset:
        return reset(exercise)
    explain(wanted[0], exercise)
    return watch(exercise) if given.watch else grade(exercise)


def numbered(chapter: str, text: str, known: list) -> Exercise:
    for exercise in known:
        if text == str(exercise.number):
            return exercise
    allowed = ", ".join(str(exercise.number) for exercise in known) or f"none: {chapter} has no exercises"
    raise Stop(f'N: got "{text}"; allowed: {allowed}', exit_code=2)


def list_exercises(found: dict) -> None:
    for chapter, known in found.items():
        if not known and len(found) == 1:
            print(f"{chapter} has no exercises to be graded")
        for exercise in known:
            about = f"{chapter} {exercise.number}  {exercise.title:<30}  {exercise.standing():<11}"
            print(f"{about}  {shown(exercise.file)}")


def explain(chapter: str, exercise: Exercise) -> None:
    print(f"{chapter}, exercise {exercise.number}: {exercise.title}\n\n{exercise.sections['Task']}\n")
    print(f"Write it in {shown(exercise.file)}.")
    print(f"./book exercise {chapter} {exercise.number} --hint gives the first of three hints.\n", flush=True)


def show_hint(exercise: Exercise) -> int:
    hints = exercise.hints()
    number = min(exercise.recall().get("hints", 0) + 1, len(hints))
    exercise.remember(hints=number)
    print(f"Hint {number} of {len(hints)}\n\n{hints[number - 1]}")
    return 0


def show_solution(exercise: Exercise) -> int:
    print(f"{shown(exercise.solution)}\n\n{exercise.solution.read_text(encoding='utf-8')}", end="")
    return 0


def reset(exercise: Exercise) -> int:
    if exercise.standing() == "not started":
        print(f"{shown(exercise.file)} is the skeleton already")
        return 0
    backup = exercise.file.with_suffix(f".{exercise.fingerprint()[:8]}.bak")
    shutil.copyfile(exercise.file, backup)
    temporary = exercise.file.with_suffix(".tmp")
    shutil.copyfile(exercise.skeleton, temporary)
    temporary.replace(exercise.file)
    print(f"{shown(exercise.file)} is the skeleton again; what was there is kept in {shown(backup)}")
    return 0


# --- grading --------------------------------------------------------------------------------------


def grade(exercise: Exercise) -> int:
    """Builds and runs the exercise's program: 0 where it is done, else 1, with the reason printed."""
    fingerprint = exercise.fingerprint()
    target = build.Build()
    target.make(f"{exercise.target}_grading")  # all but the reader's file, with progress
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            target.make(exercise.target)
    except Stop:
        log = (build.LOGS / "build-default.log").read_text(encoding="utf-8", errors="replace")
        errors = compile_errors(log, exercise)
        if not errors:
            print(told.getvalue(), end="", file=sys.stderr)
            raise
        print(f"Does not compile:\n\n{errors}")
        return 1
    code = subprocess.run([exercise.program], cwd=machine.ROOT, check=False).returncode
    if code == 0:
        exercise.remember(done=fingerprint)
    elif code != 1:
        say(f"{exercise.program} ended with exit code {code}")
    return 0 if code == 0 else 1


ERROR = re.compile(r"^(\S[^:]*:\d+):(?:\d+:)? (?:fatal )?error: ")


def compile_errors(log: str, exercise: Exercise) -> str:
    """The first error of a build's log, with the line it quotes, preferably one in the reader's file;
    "" where it was not the reader's program that did not compile."""
    if not re.search(rf"(FAILED: |[*]{{3}} ).*{exercise.file.stem}_main[.]cpp[.]o", log):
        return ""
    lines = log.splitlines()
    errors = [number for number, line in enumerate(lines) if ERROR.match(line)]
    own = [number for number in errors if lines[number].startswith(f"{exercise.file}:")]
    if not errors:
        return ""
    first = (own or errors)[0]
    text = [lines[first].replace(f"{machine.ROOT}/", "")]
    for line in lines[first + 1 : first + 4]:
        if not line.startswith(" "):
            break
        text.append(line)
    if not own:
        text.append(f"The skeleton has what is called, and how: {shown(exercise.skeleton)}")
    others = len({ERROR.match(lines[number])[1] for number in errors}) - 1
    if others:
        plural = "s" if others > 1 else ""
        text.append(f"({others} more line{plural} with errors, perhaps because of it)")
    return "\n".join(text)


def watch(exercise: Exercise) -> int:
    """Grades whenever the file is saved, until Ctrl-C; returns the last grade's exit code."""
    code = 1
    try:
        while True:
            seen = stamp(exercise.file)
            code = grade(exercise)
            now = time.strftime("%H:%M:%S")
            print(f"\n[{now}] waiting for {shown(exercise.file)} to be saved; Ctrl-C ends\n", flush=True)
            while stamp(exercise.file) in (seen, None):
                time.sleep(POLL_S)
    except KeyboardInterrupt:
        return code


def stamp(file: Path):
    """Changes when the file is saved; None while it is away, as some editors have it for a moment."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
