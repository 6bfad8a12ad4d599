"""Runs pytest, as a user would, in a process of its own, with the plugin of Ottla."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "ottla.testing.plugin"
_SETTINGS = (
    "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    "filterwarnings =\n    error\n"
    "    ignore::DeprecationWarning:kafka\n    ignore::DeprecationWarning:importlib.resources\n"
    "    ignore::DeprecationWarning:aiokafka\n"
)


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder."""
    (folder / "pytest.ini").write_text(_SETTINGS)
    is_installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    plugin = [] if is_installed else ["-p", PLUGIN]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
