"""Configures and builds. What is set up and built already costs a moment and prints nothing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from pathlib import Path

import install
import machine
from terminal import Stop, run_logged, say, show, tail

BUILD = machine.ROOT / "build"
LOGS = BUILD / "log"
PRESETS = ("default", "debug", "asan", "cuda", "fallback")

# Surroundings whose change leaves nothing of a build to keep.
AFRESH = {
    "root": "this folder was moved or copied",
    "processor": "this is another processor than the one that was compiled for",
}


@contextlib.contextmanager
def only_one(needless):
    """Keeps two commands from setting up or building at once: the second one waits, or, where
    `needless()` holds, gets False and is to leave all as it is."""
    try:
        BUILD.mkdir(exist_ok=True)
        lock_file = open(BUILD / ".lock", "w", encoding="utf-8")
    except OSError as error:
        raise Stop(
            f"{BUILD}: cannot be written ({error.strerror}); give yourself the right to write there, "
            "or clone the repository where you have it"
        ) from error
    with lock_file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if needless():
                yield False
                return
            say("another ./book is building; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield True


class Build:
    """One preset's build folder."""

    def __init__(self, preset: str = "default"):
        self.preset = preset
        self.folder = BUILD / preset
        self.state_file = self.folder / "book-state.json"

    # --- set-up -----------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Configures where that was not done yet, or where this machine has changed since."""
        state = self.state()
        if self.is_set_up():
            return
        if machine.unsupported_system():
            raise Stop(machine.unsupported_system())
        for name, change in AFRESH.items():
            if state and state["surroundings"].get(name) != surroundings()[name]:
                say(f"{change}; building {self.folder} afresh")
                shutil.rmtree(self.folder)
                break

        tools = Tools()
        if os.environ.get("CXX") and not tools.compiler:
            raise Stop(no_compiler(tools))
        may_use_apt = machine.may_use_apt()
        if tools.missing() and may_use_apt:
            say(f"missing: {', '.join(tools.missing())}")
            install.apt_install()
            may_use_apt = False  # once is enough
            tools = Tools()
        if not tools.compiler:
            raise Stop(no_compiler(tools))
        if tools.missing():
            say(f"missing: {', '.join(tools.missing())}")
            install.pip_install(tools.missing())
            tools = Tools()
        if tools.missing():
            raise Stop(f"still missing: {', '.join(tools.missing())}; see {install.LOG}")

        libraries = self.configure(tools, "--fresh", "-DOPBOOK_FETCH=OFF")
        if libraries and may_use_apt:
            say(f"missing: {', '.join(libraries)}")
            install.apt_install()
            libraries = self.configure(tools, "--fresh", "-DOPBOOK_FETCH=OFF")
        if libraries:
            say(f"missing: {', '.join(libraries)}")
            say(f"downloading them, as release archives with known hashes, into {downloads()}")
            self.configure(tools, "-DOPBOOK_FETCH=ON")
        new = {"surroundings": surroundings(), "cmake": tools.cmake.path}
        self.state_file.write_text(json.dumps(new, indent=1), encoding="utf-8")

    def is_set_up(self) -> bool:
        state = self.state()
        return state.get("surroundings") == surroundings() and Path(state["cmake"]).exists()

    def state(self) -> dict:
        """What the last complete set-up saw; {} where there was none."""
        made = any((self.folder / name).exists() for name in ("build.ninja", "Makefile"))
        try:
            return json.loads(self.state_file.read_text(encoding="utf-8")) if made else {}
        except (OSError, ValueError):
            return {}

    def configure(self, tools, *options) -> list:
        """Runs CMake; returns the libraries that are missing, after which it can be run again."""
        log = LOGS / f"configure-{self.preset}.log"
        missing = self.folder / "missing-libraries.txt"
        why = self.folder / "why-stopped.txt"
        missing.unlink(missing_ok=True)
        why.unlink(missing_ok=True)
        command = [tools.cmake.path, "--preset", self.preset, *options]
        if "--fresh" in options:
            command += [f"-DCMAKE_CXX_COMPILER={tools.compiler.path}"]
            command += ["-G", "Ninja" if tools.ninja else "Unix Makefiles"]
            command += [f"-DCMAKE_MAKE_PROGRAM={(tools.ninja or tools.make).path}"]
            command += [f"-DOPBOOK_DOWNLOADS={downloads()}"]
        if run_logged(command, log, configure_progress, cwd=machine.ROOT) == 0:
            return []
        if missing.exists():
            return missing.read_text(encoding="utf-8").splitlines()
        if why.exists():
            raise Stop(f"{why.read_text(encoding='utf-8').strip()}\n(CMake's whole output: {log})")
        show(tail(log, 25))
        raise Stop(f"CMake failed; its whole output is in {log}")

    # --- build ------------------------------------------------------------------------------------

    def make(self, *targets) -> None:
        """Sets up and builds these targets (none: all of them)."""
        with only_one(lambda: self.is_built(targets)) as mine:
            if not mine:
                return
            self.set_up()
            log = LOGS / f"build-{self.preset}.log"
            if run_logged(self.build_command(targets), log, build_progress) != 0:
                show(tail(log, 40, start="FAILED:"))
                raise Stop(f"the build failed; its whole output is in {log}")

    def is_built(self, targets) -> bool:
        """Whether these targets are as they should be. Ninja tells without touching anything, while
        another one builds; Make does not, and has to be waited for."""
        if not self.is_set_up() or not (self.folder / "build.ninja").exists():
            return False
        told = machine.output_of([*self.build_command(targets), "--", "-n"])
        return "ninja: no work to do." in told

    def build_command(self, targets) -> list:
        command = [self.cmake(), "--build", self.folder, "--parallel", str(os.cpu_count() or 1)]
        return [*command, "--target", *targets] if targets else command

    def cmake(self) -> str:
        return self.state()["cmake"]

    def ctest(self) -> str:
        return str(Path(self.cmake()).with_name("ctest"))


class Tools:
    """The tools to build with; None for what is missing."""

    def __init__(self):
        self.compiler = machine.find_compiler()
        self.cmake = machine.find_cmake()
        self.ninja = machine.find_ninja()
        self.make = machine.find_make()

    def missing(self) -> list:
        names = [] if self.compiler else ["compiler"]
        names += [] if self.cmake else ["cmake"]
        return names + ([] if self.ninja or self.make else ["ninja"])


def no_compiler(tools) -> str:
    oldest = ", ".join(f"{name} {version}" for name, version in machine.OLDEST_COMPILER.items())
    asked = os.environ.get("CXX")
    if asked:
        return f'CXX: got "{asked}"; allowed: a C++20 compiler ({oldest}, or newer)'
    return f"no C++20 compiler ({oldest}, or newer). Install it: {install.by_hand(tools.missing())}"


def downloads() -> Path:
    """Where archives are kept, and looked for before anything is downloaded."""
    return Path(os.environ.get("OPBOOK_DOWNLOADS") or BUILD / "downloads").resolve()


def surroundings() -> dict:
    """What a configured build depends on and what is cheap to look at: a change sets up anew."""
    return {
        "root": str(machine.ROOT),
        "processor": machine.processor(),
        "CXX": os.environ.get("CXX"),
        "nvcc": machine.nvcc_path(),
        "gpu": machine.gpu_is_visible(),
    }


def configure_progress(line: str):
    found = re.match(
        r"-- (Looking for a .*|The \w+ compiler ident.*|Found \w+.*|\S+: not installed.*)", line
    )
    return found and f"configuring: {found[1]}"


def build_progress(line: str):
    """`[3/20] compiling common/array.cpp` for what Ninja and Make say of a step of work."""
    step, _, work = line.partition("]")
    if not step.startswith("["):
        return None
    found = re.match(r" Building \S+ object (\S+)\.o$", work)
    if found:
        return f"{step}] compiling {re.sub(r'CMakeFiles/[^/]+[.]dir/', '', found[1])}"
    found = re.match(r" Linking .* (\S+)$", work)
    if found:
        return f"{step}] linking {found[1]}"
    return None if work.startswith(" Built target") else line
