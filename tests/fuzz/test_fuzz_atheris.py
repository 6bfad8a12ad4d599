"""A few thousand inputs that are guided by coverage; `make fuzz` runs longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.corpus import FOLDER

RUNS = int(os.environ.get("OTTLA_FUZZ_RUNS", "5000"))
SCRIPT = Path(__file__).with_name("atheris_frames.py")


@pytest.mark.timeout(300)
def test_inputs_that_look_for_new_code_do_no_harm(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    found = tmp_path / "found"
    found.mkdir()
    seed = os.environ.get("OTTLA_FUZZ_SEED", "1")
    flags = [f"-runs={RUNS}", f"-seed={seed}", f"-artifact_prefix={tmp_path}/", "-rss_limit_mb=1024"]
    # The shell in between: a program begins with the peak memory of its parent, and pytest's may be large.
    run = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, str(SCRIPT), *flags, str(found), str(FOLDER)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr[-20_000:]
    assert f"Done {RUNS} runs" in run.stderr
    assert any(found.iterdir()), "nothing new was reached: the guidance does not work"
