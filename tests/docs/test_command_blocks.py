"""Every command block of the documentation does what it says: each page on a broker of its own, in order."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.docs.command_blocks import DEFAULT_ADDRESS, ROOT, blocks_of, pages_with_blocks
from tests.integration.registry_stage import RunningRegistry

from ottla.testing.broker_process import BrokerProcess, free_port

WITHIN_S = 400
REGISTRY = "127.0.0.1:8081"
SETTINGS = {"group.initial.rebalance.delay.ms": "50"}


@pytest.mark.slow
@pytest.mark.timeout(WITHIN_S + 60)
@pytest.mark.parametrize("page", pages_with_blocks(), ids=lambda page: page.stem)
def test_the_commands_of_a_page_work_one_after_another(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "clean"
    folder.mkdir()
    # What `make setup` leaves in a clone; the rest of the folder is the reader's.
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    for name in ("examples", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker, ExitStack() as stack:
        scripts = [each.script.replace(DEFAULT_ADDRESS, broker.address) for each in blocks_of(page)]
        registry = ""
        if REGISTRY in page.read_text():
            registry = stack.enter_context(RunningRegistry(broker.address)).url
            scripts = [each.replace(f"http://{REGISTRY}", registry) for each in scripts]
        second = f"127.0.0.1:{free_port()}"
        program = "set -euo pipefail\n" + "\n".join(scripts).replace("127.0.0.1:9192", second)
        done = subprocess.run(
            ["bash", "-c", program],
            cwd=folder,
            env={
                **os.environ,
                "OTTLA_BOOTSTRAP": broker.address,
                "OTTLA_REGISTRY": registry,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
    assert done.returncode == 0, f"{program}\n---\n{done.stdout}\n---\n{done.stderr}"


def test_the_readme_and_the_tutorial_have_commands_to_try() -> None:
    assert {"README", "tutorial"} <= {page.stem for page in pages_with_blocks()}
