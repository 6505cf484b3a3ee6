"""A copy of ./book in a folder of its own, with stand-ins for the tools that it calls.

The stand-ins are shell scripts that log how they were called; together with them the command can be
watched doing a whole set-up in milliseconds, without a network and without changing the machine.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CXX = """#!/bin/sh
echo '#define __GNUC__ 12'
echo '#define __GNUC_MINOR__ 2'
"""

NINJA = """#!/bin/sh
echo 1.11.1
"""

# Configures by writing build.ninja, builds by writing programs that repeat their arguments. The
# files no-libraries, broken and slow, beside it, make it lack libraries, fail, or take its time.
CMAKE = r"""#!/bin/sh
here=$(dirname "$0")
case "$1" in
--version)
  echo 'cmake version 3.25.1' ;;
--preset)
  echo "configure $*" >> "$here/calls"
  mkdir -p build/default
  case "$*" in *OPBOOK_FETCH=OFF*) if [ -e "$here/no-libraries" ]; then
    echo 'Catch2 3.4' > build/default/missing-libraries.txt
    exit 1
  fi ;; esac
  touch build/default/build.ninja ;;
--build)
  echo "build $*" >> "$here/calls"
  case "$*" in *' -- -n') if [ -e "$2/ch13_norm_rope/ch13" ]; then
    echo 'ninja: no work to do.'
  fi; exit ;; esac
  if [ -e "$here/slow" ]; then echo '[1/2] Building CXX object slow.cpp.o'; exec sleep 60; fi
  if [ -e "$here/broken" ]; then echo 'FAILED: rms_norm.cpp.o'; echo 'error: no such thing'; exit 1; fi
  for program in "$2/ch13_norm_rope/ch13" "$2/common/opbook"; do
    if [ ! -e "$program" ]; then
      echo '[1/1] Building CXX object CMakeFiles/ch13.dir/main.cpp.o'
      mkdir -p "$(dirname "$program")"
      printf '#!/bin/sh\nfor a; do printf "[%%s]" "$a"; done; pwd; exit ${EXIT_CODE:-0}\n' > "$program"
      chmod +x "$program"
    fi
  done ;;
esac
"""


class Sandbox:
    """Use as a context manager; `folder` holds the copy, `tools` the stand-ins."""

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory(prefix="a book ")
        base = Path(self._temporary.name).resolve()
        self.folder = base / "op book"
        self.tools = base / "tools"
        self.elsewhere = base / "elsewhere"
        for folder in (self.folder / "ch13_norm_rope", self.tools, self.elsewhere):
            folder.mkdir(parents=True)
        shutil.copy(ROOT / "book", self.folder)
        shutil.copytree(ROOT / "setup", self.folder / "setup")
        (self.folder / "ch13_norm_rope" / "CMakeLists.txt").touch()
        for name, text in (("c++", CXX), ("ninja", NINJA), ("cmake", CMAKE)):
            self.add_tool(name, text)
        for name in ("sh", "dirname", "mkdir", "touch", "chmod", "sleep"):
            os.symlink(shutil.which(name), self.tools / name)
        return self

    def __exit__(self, *_):
        self._temporary.cleanup()

    def add_tool(self, name: str, text: str) -> None:
        path = self.tools / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def calls(self) -> list:
        """What cmake was asked to do so far, one call a line."""
        log = self.tools / "calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def start(self, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, self.folder / "book", *arguments],
            cwd=self.elsewhere,
            env={"PATH": str(self.tools), "CXX": "c++", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def book(self, *arguments, **environment):
        """Runs ./book with only the stand-ins on PATH; returns (exit code, stdout, stderr)."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err
