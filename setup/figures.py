"""The figures that ./book run makes where Matplotlib is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import machine
from terminal import say

SCRIPT = machine.ROOT / "scripts" / "plot_results.py"
ROOFLINE = machine.ROOT / "scripts" / "plot_roofline.py"


def draw(chapter: str, program: str, results: list) -> int:
    """Draws a chapter's results and its cache curves into figures/ beside them; returns the exit
    code. Lacking Matplotlib is no failure: a line says what brings it."""
    python = python_with_matplotlib()
    if not python:
        say(f"no figures, since Matplotlib is not installed; to install it: {remedy()}")
        return 0
    print(f"\n== {chapter} figures\n", flush=True)
    files = list(results)
    curves = subprocess.run([program, "cache", "--json"], stdout=subprocess.PIPE, check=False)
    if curves.returncode == 0:
        files.append(results[0].with_name(f"{chapter}_cache.json"))
        new = files[-1].with_suffix(".new")
        new.write_bytes(curves.stdout)
        new.replace(files[-1])
    commands = [[python, SCRIPT, *files]]
    for file in results:  # beside which a chapter that measures its machine leaves the roofs
        roofs = file.with_name(f"{file.stem}_machine.json")
        if roofs.exists():
            name = f"{file.stem}_roofline"
            commands.append([python, ROOFLINE, "--machine", roofs, "--name", name, file])
    codes = [subprocess.run(one, cwd=machine.ROOT, check=False).returncode for one in commands]
    return max(map(abs, [curves.returncode, *codes]))


def python_with_matplotlib() -> str:
    """This Python or that of .venv, or "" where neither has it."""
    for python in (sys.executable, str(machine.VENV / "bin" / "python")):
        if machine.output_of([python, "-c", "import matplotlib; print(matplotlib.__version__)"]):
            return python
    return ""


def remedy() -> str:
    if machine.system_family() == "debian" and os.path.realpath(sys.executable).startswith("/usr/"):
        return f"{'' if machine.is_root() else 'sudo '}apt-get install -y python3-matplotlib"
    return "python3 -m venv .venv && .venv/bin/python -m pip install matplotlib"
