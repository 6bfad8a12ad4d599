"""What building the package does beside packing it: note the version, compile modules, and add a file that
lets Spark's Python processes start slowly (ottla/spark/runtime/early_connection.py).

Modules are compiled by tools/compile_modules.py. Without a C compiler, or if anything else is amiss, the
package is built all the same: pure, with a notice. With OTTLA_PURE set it is pure as well: a wheel for any
machine. With OTTLA_MACHINE=aarch64 the compiled modules, and the wheel, are for that processor. An editable
install gets the version and the compiled modules too, beside their sources in src/.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import shorten
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TIMEOUT_S = 300
NOTICE_CHARACTERS = 120
MACHINE = os.environ.get("OTTLA_MACHINE", "")
PYTHON_TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
AT_START = "ottla_early_connection.pth"
"""Read by every Python that starts; it does something in Spark's processes only (ottla/spark/runtime)."""


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts compiled modules into wheels."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, before the files are gathered."""
        self._made_in: Path | None = None
        if self.target_name != "wheel":
            return
        for kind in ("force_include", "force_include_editable"):
            build_data[kind][str(Path(self.root) / "src" / AT_START)] = AT_START
        made_in = self._made_in = Path(tempfile.mkdtemp(prefix="ottla-wheel-"))
        self._note_version(made_in, version, build_data)
        if os.environ.get("OTTLA_PURE"):
            return
        problem = self._compile(made_in)
        if problem is not None:
            self.app.display_warning(
                f"ottla is built without compiled modules (reading is slower; no C compiler?): {problem}"
            )
            return
        for made in made_in.rglob("*.so"):
            place = made.relative_to(made_in)
            if version == "editable":
                shutil.copyfile(made, Path(self.root) / "src" / place)
            else:
                build_data["force_include"][str(made)] = str(place)
                build_data["pure_python"] = False
                build_data["infer_tag"] = not MACHINE
                if MACHINE:
                    build_data["tag"] = f"{PYTHON_TAG}-{PYTHON_TAG}-linux_{MACHINE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Clean up."""
        if self._made_in is not None:
            shutil.rmtree(self._made_in, ignore_errors=True)

    def _note_version(self, made_in: Path, build: str, build_data: dict[str, Any]) -> None:
        """Put the version of the package where `ottla.__version__` finds it."""
        place = Path("ottla") / "_version.py"
        is_editable = build == "editable"
        target = (Path(self.root) / "src" / place) if is_editable else made_in / "_version.py"
        target.write_text(f'VERSION = "{self.metadata.version}"\n')
        if not is_editable:
            build_data["force_include"][str(target)] = str(place)

    def _compile(self, into: Path) -> str | None:
        """Compile into a folder; return what went wrong, in a line."""
        program = Path(self.root) / "tools" / "compile_modules.py"
        machine = ["--machine", MACHINE] if MACHINE else []
        try:
            done = subprocess.run(
                [sys.executable, str(program), "--into", str(into), *machine],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode == 0:
            return None
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return shorten(said, NOTICE_CHARACTERS)
