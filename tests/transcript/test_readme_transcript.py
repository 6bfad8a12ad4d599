"""The README as a newcomer lives it: a clean clone, a real terminal, its commands pasted one by one.

`make transcript` runs it. It uses the environment that is there; `make transcript REUSE=` takes the whole
way, installs included, which needs PyPI and some minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.command_blocks import DEFAULT_ADDRESS, ROOT, blocks_of
from tools.terminal import Terminal, is_available

from ottla.testing.broker_process import free_port

VENV = os.environ.get("OTTLA_TRANSCRIPT_VENV")
INSTALLED_WITHIN_S = 540
READY_WITHIN_S = 30
BLOCK_WITHIN_S = 300
AFTER_INSTALLS_S = 30

pytestmark = [
    pytest.mark.skipif("OTTLA_TRANSCRIPT" not in os.environ, reason="make transcript runs it"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(not is_available(), reason="tmux is not installed: apt-get install tmux"),
]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean clone of this repository, with what is not committed yet, in an empty folder."""
    folder = tmp_path_factory.mktemp("newcomer") / "ottla"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    changed = subprocess.run(
        ["git", "ls-files", "--modified", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, changed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    if VENV:
        (folder / ".venv").mkdir()
        for each in Path(VENV).resolve().iterdir():
            if each.name != ".ready":
                (folder / ".venv" / each.name).symlink_to(each)
        (folder / ".venv" / ".ready").touch()
    return folder


SERVICES = "--registry 127.0.0.1:0 --console 127.0.0.1:0"


@pytest.fixture(scope="module")
def address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def serving(clone: Path, address: str) -> Iterator[tuple[Terminal, float]]:
    """The first terminal: `make serve`, as the README says, and how long it took until it was ready."""
    with Terminal(clone, environment={"SERVE": f"--listen {address} --metrics off {SERVICES}"}) as first:
        began = time.monotonic()
        first.type("make serve")
        first.wait_for(f"ready {address}", within_s=INSTALLED_WITHIN_S)
        yield first, time.monotonic() - began
        first.press("C-c")
        first.wait_for(lambda text: text.rstrip().endswith("$"), within_s=READY_WITHIN_S)


SCREENS = (
    ("ottla topic create orders --partitions 3", r"orders: created, 3 partitions"),
    ("| ottla produce orders --key alice", r"1 record to orders"),
    ("ottla consume orders --from-beginning --exit", r'\d:0 .* alice  \{"item": "coffee", "price": 3\}'),
    ("ottla topic describe orders", r"orders: 3 partitions, replication factor 1"),
    ("ottla doctor", r"all is well"),
    ("python - <<", r"100001 records"),
    ("ottla group describe billing", r"billing"),
    ("ottla demo", r"every order once"),
)
"""What the README's commands promise, and what must be on the screen after each."""


def test_the_readme_in_a_real_terminal(clone: Path, address: str, serving: tuple[Terminal, float]) -> None:
    _, start_s = serving
    commands = [each for block in blocks_of(clone / "README.md") for each in _commands(block.script)]
    environment = {"OTTLA_BOOTSTRAP": address}
    slow_s = 0.0
    began = time.monotonic()
    with Terminal(clone, environment=environment, lines=50) as second:
        second.run(f"export OTTLA_BOOTSTRAP={address}", within_s=10)
        for command in commands:
            at = time.monotonic()
            shown = second.run(command.replace(DEFAULT_ADDRESS, address), within_s=BLOCK_WITHIN_S)
            if "ottla demo" in command:
                slow_s = time.monotonic() - at
            for start, promised in SCREENS:
                if start in command:
                    assert re.search(promised, shown), f"{promised!r} is not on the screen:\n{shown}"
    took_s = time.monotonic() - began
    print(f"ready after {start_s:.1f} s, the rest took {took_s:.1f} s, {slow_s:.1f} s of it the demo")
    assert {each for each, _ in SCREENS if not any(each in command for command in commands)} == set()
    assert took_s - slow_s < AFTER_INSTALLS_S


def _commands(script: str) -> list[str]:
    """Return the commands of a block; a here-document belongs to its command."""
    found: list[str] = []
    until: str | None = None
    for line in script.splitlines():
        if until is not None:
            found[-1] += f"\n{line}"
            until = None if line == until else until
        elif line.strip():
            found.append(line)
            here = re.search(r"<<'(\w+)'", line)
            until = here[1] if here else None
    return found
