"""One screen: what this machine runs, what is missing and why, and the command that mends it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import tempfile
from pathlib import Path

import build
import figures
import install
import machine

NEEDED_DISK_GB = 1


class Report:
    """Lines of three columns, and whether the reader must act before `./book run` can work."""

    def __init__(self):
        self.blocked = False

    def line(self, verdict: str, what: str, text: str) -> None:
        print(f"  {verdict:<9}{what:<15}{text}")

    def have(self, what: str, text: str) -> None:
        self.line("have", what, text)

    def optional(self, what: str, text: str) -> None:
        self.line("not here", what, text)

    def missing(self, what: str, text: str, blocks: bool) -> None:
        self.line("MISSING", what, text)
        self.blocked |= blocks


def doctor() -> int:
    report = Report()
    print("To build and run everything on the CPU:")
    check_system(report)
    tools = check_tools(report)
    check_libraries(report, tools)
    print("For the GPU columns:")
    has_nvcc, has_gpu = check_cuda(report)
    print("For figures and your own scripts:")
    check_python_packages(report)
    print("What runs here:")
    check_columns(report, has_nvcc, has_gpu)
    if report.blocked:
        print("Mend what is marked MISSING, then: ./book run")
    else:
        print("Ready: ./book run")
    return 1 if report.blocked else 0


def check_system(report: Report) -> None:
    name = machine.os_release().get("PRETTY_NAME", platform.system())
    text = (
        f"{name}, {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )
    if machine.unsupported_system():
        report.missing("system", machine.unsupported_system(), blocks=True)
    elif platform.machine() in ("x86_64", "AMD64"):
        report.have("system", text)
    else:
        report.have("system", f"{text} (untried: only x86-64 is supported)")
    free_gb = shutil.disk_usage(machine.ROOT).free / 1e9
    if free_gb < NEEDED_DISK_GB:
        report.missing(
            "disk", f"{free_gb:.1f} GB free; a build takes {NEEDED_DISK_GB} GB", blocks=True
        )
    else:
        report.have("disk", f"{free_gb:.0f} GB free")


def check_tools(report: Report) -> build.Tools:
    tools = build.Tools()
    by_apt = machine.may_use_apt()
    if tools.compiler:
        report.have("compiler", described(tools.compiler))
    elif by_apt and not os.environ.get("CXX") and not install.too_old("g++"):
        report.missing("compiler", "./book run installs it with apt-get", blocks=False)
    else:
        report.missing("compiler", build.no_compiler(tools), blocks=True)

    blocks = not by_apt and not venv_is_possible()
    remedy = f"./book run installs it {'with apt-get' if by_apt else 'with pip into .venv'}"
    if blocks:
        remedy = install.by_hand(tools.missing())
    if tools.cmake:
        report.have("cmake", described(tools.cmake))
    else:
        oldest = ".".join(str(number) for number in machine.OLDEST_CMAKE)
        report.missing("cmake", f"none of version {oldest} or newer: {remedy}", blocks)
    if tools.ninja or tools.make:
        report.have("ninja or make", described(tools.ninja or tools.make))
    else:
        report.missing("ninja or make", remedy, blocks)
    return tools


def described(tool) -> str:
    return f"{tool.name} {tool.version} ({tool.path})"


def venv_is_possible() -> bool:
    return all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")) or (
        importlib.util.find_spec("pip") is not None
    )


def check_libraries(report: Report, tools: build.Tools) -> None:
    """Asks CMake itself, in a folder that is thrown away."""
    if tools.missing():
        report.line("unknown", "libraries", "looked for once a compiler and cmake are here")
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [tools.cmake.path, "-S", machine.ROOT, "-B", folder, "-DOPBOOK_FETCH=OFF"]
        command += ["-DOPBOOK_CUDA=OFF", f"-DCMAKE_CXX_COMPILER={tools.compiler.path}"]
        command += ["-G", "Ninja" if tools.ninja else "Unix Makefiles"]
        command += [f"-DCMAKE_MAKE_PROGRAM={(tools.ninja or tools.make).path}"]
        output = machine.output_of(command)
        missing = Path(folder) / "missing-libraries.txt"
        names = missing.read_text(encoding="utf-8").splitlines() if missing.exists() else []
    if names:
        remedy = "with apt-get" if machine.may_use_apt() else "as pinned downloads into build/"
        report.missing(
            "libraries", f"{', '.join(names)}: ./book run gets them {remedy}", blocks=False
        )
    elif output:
        report.have("libraries", "nlohmann_json, fmt, CLI11, Catch2, OpenMP")
    else:
        report.missing("libraries", "CMake fails here; ./book build shows why", blocks=True)


def check_cuda(report: Report) -> tuple:
    nvcc = machine.find_nvcc()
    oldest = ".".join(str(number) for number in machine.OLDEST_CUDA)
    usable = bool(nvcc) and machine.numbers(nvcc.version) >= machine.OLDEST_CUDA
    if usable:
        report.have("CUDA compiler", f"nvcc {nvcc.version} ({nvcc.path})")
    elif nvcc:
        report.optional(
            "CUDA compiler",
            f"nvcc {nvcc.version} is too old: install CUDA Toolkit {oldest} or newer",
        )
    else:
        report.optional(
            "CUDA compiler", f"no nvcc: install NVIDIA's CUDA Toolkit, {oldest} or newer"
        )
    names = machine.gpu_names() if machine.gpu_is_visible() else []
    for name in names[:1]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        report.have("GPU", f"{name}{more} (name, driver)")
    if not names:
        why = (
            "nvidia-smi does not answer: install the driver"
            if machine.gpu_is_visible()
            else "no NVIDIA GPU is visible"
        )
        report.optional("GPU", why)
    ncu = shutil.which("ncu")
    if ncu:
        report.have("Nsight Compute", ncu)
    else:
        report.optional("Nsight Compute", "no ncu: install nsight-compute from NVIDIA's packages")
    return usable, bool(names)


def check_python_packages(report: Report) -> None:
    python = figures.python_with_matplotlib()
    if python:
        report.have("Matplotlib", f"and with it NumPy ({python})")
    else:
        report.optional("Matplotlib", f"no figures; to install it: {figures.remedy()}")


def check_columns(report: Report, has_nvcc: bool, has_gpu: bool) -> None:
    report.line("yes", "ledger, replay", "on any machine")
    report.line("yes", "clock, CPU", "on any machine")
    if has_nvcc and has_gpu:
        report.line("yes", "clock, GPU", "")
    elif has_nvcc:
        report.line("no", "clock, GPU", "no GPU: CUDA code compiles, its tests are skipped")
    else:
        report.line(
            "no",
            "clock, GPU",
            "no CUDA compiler: the CPU part is built" if has_gpu else "no CUDA compiler, no GPU",
        )
