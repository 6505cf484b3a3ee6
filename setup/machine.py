"""What this machine has: its system and the tools of a build. Looks, and changes nothing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"

OLDEST_CMAKE = (3, 25)
OLDEST_COMPILER = {"g++": 11, "clang++": 14}
OLDEST_CUDA = (12, 4)


@dataclass(frozen=True)
class Tool:
    path: str
    name: str
    version: str


def output_of(command, **options) -> str:
    """What a command prints on stdout; "" where it cannot be run or fails."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
            encoding="utf-8",
            errors="replace",
            **options,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def numbers(version: str) -> tuple:
    """The leading numbers of a version as a tuple that compares: "3.25.1" is (3, 25, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def on_path_or_in_venv(name: str) -> list:
    found = [shutil.which(name), str(VENV / "bin" / name)]
    return [path for path in found if path and os.access(path, os.X_OK)]


# --- the system -----------------------------------------------------------------------------------


def os_release() -> dict:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def system_family() -> str:
    """`debian`, `fedora`, `arch`, `suse`, or "" for anything else."""
    release = os_release()
    kin = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    for family, names in {
        "debian": ("debian", "ubuntu"),
        "fedora": ("fedora", "rhel", "centos"),
        "arch": ("arch",),
        "suse": ("suse", "opensuse"),
    }.items():
        if any(name in kin for name in names):
            return family
    return ""


def processor() -> str:
    """The processor's model; "" where the kernel does not name it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def is_root() -> bool:
    return os.geteuid() == 0


def may_use_apt() -> bool:
    return is_root() and system_family() == "debian" and shutil.which("apt-get") is not None


def unsupported_system() -> str:
    """Why this system will not do, with what to do instead; "" where it will."""
    if sys.platform.startswith("linux"):
        return ""
    return (
        f"this is {platform.system()}; supported: Linux. Run it in a container"
        ' (docker run -it -v "$PWD":/opbook -w /opbook debian:12) or, on Windows, in WSL'
    )


# --- tools ----------------------------------------------------------------------------------------


def compiler_candidates() -> list:
    if os.environ.get("CXX"):
        return [os.environ["CXX"]]
    versions = [f"g++-{n}" for n in range(16, 10, -1)] + [f"clang++-{n}" for n in range(22, 13, -1)]
    return ["c++", "g++", "clang++", *versions]


def inspect_compiler(candidate: str):
    """The compiler as a Tool, or None where it cannot preprocess C++20 with a standard library."""
    path = shutil.which(candidate)
    if not path:
        return None
    command = [path, "-std=c++20", "-x", "c++", "-E", "-dM", "-"]
    macros = dict(
        re.findall(r"#define (\w+) (.+)", output_of(command, input="#include <concepts>"))
    )
    if "__clang_major__" in macros:
        return Tool(path, "clang++", f"{macros['__clang_major__']}.{macros['__clang_minor__']}")
    if "__GNUC__" in macros:
        return Tool(path, "g++", f"{macros['__GNUC__']}.{macros['__GNUC_MINOR__']}")
    return None


def find_compiler():
    """The first C++ compiler that is new enough, or None."""
    for candidate in compiler_candidates():
        tool = inspect_compiler(candidate)
        if tool and numbers(tool.version)[0] >= OLDEST_COMPILER[tool.name]:
            return tool
    return None


def find_cmake():
    for path in on_path_or_in_venv("cmake"):
        found = re.search(r"cmake version (\S+)", output_of([path, "--version"]))
        if found and numbers(found[1]) >= OLDEST_CMAKE:
            return Tool(path, "cmake", found[1])
    return None


def find_ninja():
    for path in on_path_or_in_venv("ninja"):
        version = output_of([path, "--version"]).strip()
        if version:
            return Tool(path, "ninja", version)
    return None


def find_make():
    path = shutil.which("make")
    found = re.search(r"GNU Make (\S+)", output_of([path, "--version"]) if path else "")
    return Tool(path, "make", found[1]) if found else None


# --- CUDA -----------------------------------------------------------------------------------------


def nvcc_path():
    """Where CMake will find nvcc, without running anything."""
    cuda_path = os.environ.get("CUDA_PATH")
    for path in (
        os.environ.get("CUDACXX"),
        shutil.which("nvcc"),
        cuda_path and f"{cuda_path}/bin/nvcc",
        "/usr/local/cuda/bin/nvcc",
    ):
        if path and shutil.which(path):
            return shutil.which(path)
    return None


def find_nvcc():
    path = nvcc_path()
    found = re.search(r"release (\S+),", output_of([path, "--version"]) if path else "")
    return Tool(path, "nvcc", found[1]) if found else None


def gpu_is_visible() -> bool:
    """Whether the kernel shows an NVIDIA GPU (WSL: a paravirtual one); costs nothing to ask."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or (
        Path("/dev/dxg").exists() and shutil.which("nvidia-smi") is not None
    )


def gpu_names() -> list:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return [line.strip() for line in output_of(query).splitlines() if line.strip()]
