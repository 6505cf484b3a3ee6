"""Installs what is missing: with apt-get where that is allowed, else with pip into .venv."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import machine
from terminal import Stop, run_logged, say

LOG = machine.ROOT / "build" / "log" / "setup.log"

# Debian's and Ubuntu's packages, with the oldest version that will do ("" for any).
APT_PACKAGES = {
    "g++": "11",
    "cmake": "3.25",
    "ninja-build": "",
    "nlohmann-json3-dev": "3.10",
    "libfmt-dev": "9",
    "libcli11-dev": "2.1",
    "catch2": "3.4",
}
# Where some of these are too old, the rest comes from pip and from downloads, which need these.
APT_FOR_DOWNLOADS = ("python3-venv", "ca-certificates")
BACKPORTS_FILE = Path("/etc/apt/sources.list.d/opbook-backports.list")

# What a reader without rights is told to type: the command, and its names for what is missing.
BY_HAND = {
    "debian": ("apt-get install -y", {"compiler": "g++", "cmake": "cmake", "ninja": "ninja-build"}),
    "fedora": ("dnf install -y", {"compiler": "gcc-c++", "cmake": "cmake", "ninja": "ninja-build"}),
    "arch": ("pacman -S --needed", {"compiler": "gcc", "cmake": "cmake", "ninja": "ninja"}),
    "suse": ("zypper install -y", {"compiler": "gcc-c++", "cmake": "cmake", "ninja": "ninja"}),
}


def by_hand(missing) -> str:
    """The command that installs what is missing, for the reader to type."""
    family = machine.system_family()
    if family not in BY_HAND:
        return f"install {', '.join(missing)} with your package manager"
    command, packages = BY_HAND[family]
    names = [packages[name] for name in missing]
    if family == "debian" and "g++" in names and too_old("g++"):
        return "use a newer release of this system, or a container"
    if family == "debian" and "cmake" in names and too_old("cmake"):
        names = [*(name for name in names if name == "g++"), "python3-venv"]  # pip brings the rest
    return f"{'' if machine.is_root() else 'sudo '}{command} {' '.join(names)}"


# --- apt ------------------------------------------------------------------------------------------


def apt_install() -> None:
    """Installs everything a build takes, system-wide, as far as apt-get can."""
    say(f"installing for the whole system, with apt-get: {' '.join(APT_PACKAGES)}")
    say(f"(details: {LOG})")
    # A run that was interrupted may have left packages half-configured.
    apt(["dpkg", "--configure", "-a"])
    if not apt(["apt-get", "update"]):
        say("apt-get update failed; going on with the package lists that are here")
    release = machine.os_release()
    backports = release.get("ID") == "debian" and release.get("VERSION_ID") == "12"
    wanted = [name for name in APT_PACKAGES if candidate(name) and not too_old(name)]
    if backports:
        wanted = [name for name in wanted if name != "catch2"]
    elif len(wanted) < len(APT_PACKAGES):
        wanted += APT_FOR_DOWNLOADS
    done = apt(["apt-get", "install", "-y", "--no-install-recommends", "--no-upgrade", *wanted])
    if backports:
        done = install_catch2_from_backports() and done
    if not done:
        say(f"apt-get did not install everything (see {LOG}); going on without it")


def install_catch2_from_backports() -> bool:
    """Debian 12 ships Catch2 2; its backports have Catch2 3."""
    if not re.search(
        r"\| 3\.\S+ \|.*-backports", machine.output_of(["apt-cache", "madison", "catch2"])
    ):
        source = backports_source()
        say(f"Catch2 3 comes from bookworm-backports: writing {BACKPORTS_FILE}")
        BACKPORTS_FILE.write_text(f"{source}\n", encoding="utf-8")
        if not apt(["apt-get", "update"]):
            return False
    release = ["-t", "bookworm-backports"]
    return apt(["apt-get", "install", "-y", "--no-install-recommends", *release, "catch2"])


def backports_source() -> str:
    """The apt source line, from the mirror that this machine already takes bookworm from."""
    targets = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    sites = machine.output_of([*targets, "Codename: bookworm"]).split()
    site = sites[0] if sites else "http://deb.debian.org/debian"
    key = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    options = f"[signed-by={key}] " if key.exists() else ""
    return f"deb {options}{site} bookworm-backports main"


def candidate(package: str) -> str:
    """The version that apt would install; "" where it does not know the package."""
    policy = machine.output_of(["apt-cache", "policy", package])
    found = re.search(r"Candidate: (?:\d+:)?(\d\S*)", policy)
    return found[1] if found else ""


def too_old(package: str) -> bool:
    """Whether apt knows the package, but in no version that will do."""
    version = machine.numbers(candidate(package))
    return bool(version) and version < machine.numbers(APT_PACKAGES[package])


def apt(command) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    return run_logged(command, LOG, apt_progress, append=True, env=environment) == 0


def apt_progress(line: str):
    found = re.match(r"(?:Get:\d+ \S+ \S+ \S+ ([a-z]\S+)|(Unpacking|Setting up) (\S+))", line)
    if not found:
        return None
    return f"downloading {found[1]}" if found[1] else f"{found[2].lower()} {found[3]}"


# --- pip ------------------------------------------------------------------------------------------


def pip_install(packages) -> None:
    """Installs Python packages that bring programs (cmake, ninja) into .venv."""
    say(f"installing {' and '.join(packages)} with pip into {machine.VENV}")
    say(f"(nothing outside this folder changes; details: {LOG})")
    pip = working_pip(packages)
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    requirements = [f"{name}>=3.25,<5" if name == "cmake" else name for name in packages]
    if run_logged([*pip, "install", *options, *requirements], LOG, pip_progress, append=True):
        raise Stop(
            f"pip could not install {' and '.join(packages)} (see {LOG}; is there a network?)."
            f" Or install them yourself: {by_hand(packages)}"
        )


def working_pip(packages) -> list:
    """A pip command that fills .venv; makes .venv, or completes one that was left half-made."""
    python = machine.VENV / "bin" / "python"
    # Debian splits pip off Python; the system's own pip can fill a .venv without one.
    own_pip = [python, "-m", "pip"]
    system_pip = [sys.executable, "-m", "pip", "--python", python]
    make = [sys.executable, "-m", "venv", machine.VENV]
    for steps in (
        [[*own_pip, "--version"]],
        [make, [*own_pip, "--version"]],
        [[*make, "--without-pip"], [*system_pip, "--version"]],
    ):
        if all(runs(step) for step in steps):
            return steps[-1][:-1]
    raise Stop(
        f"this Python cannot make a virtual environment with pip (see {LOG})."
        f" Install what is missing: {by_hand(packages)}"
    )


def runs(command) -> bool:
    if not os.access(command[0], os.X_OK):
        return False
    return run_logged(command, LOG, lambda line: None, append=True) == 0


def pip_progress(line: str):
    return line.strip() if re.match(r"\s*(Collecting|Downloading|Installing)", line) else None
