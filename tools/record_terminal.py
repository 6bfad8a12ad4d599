"""Make docs/quickstart.svg, the picture in the README, from a real run in a real terminal: make picture."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.terminal import PROMPT, Terminal  # noqa: E402

from ottla.testing.broker_process import BrokerProcess, free_port  # noqa: E402

PICTURE = ROOT / "docs" / "quickstart.svg"
COLUMNS = 84
SHOWN_ADDRESS = "127.0.0.1:9092"
COMMANDS = (
    "ottla topic create orders --partitions 3",
    "seq 1 1000000 | ottla produce orders",
    "ottla consume orders --offset -1 --exit",
    "ottla demo --seconds 6",
)
WITHIN_S = 300


def _is_back(text: str) -> bool:
    return text.rstrip().splitlines()[-1] == PROMPT.rstrip()


def main() -> None:
    """Run the commands and draw what is on the screen then."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"127.0.0.1:{free_port()}"
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "OTTLA_BOOTSTRAP": address,
            "HOME": folder,
        }
        with (
            BrokerProcess(Path(folder) / "data", listen=address),
            Terminal(Path(folder), environment=environment, columns=COLUMNS, lines=60) as terminal,
        ):
            for command in COMMANDS:
                terminal.type(command)
                terminal.wait_for(_is_back, within_s=WITHIN_S)
            screen = terminal.screen(colours=True).rstrip()
    lines = screen.replace(address, SHOWN_ADDRESS.ljust(len(address))).splitlines()[:-1]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in (f"{PROMPT}make serve", f"ready {SHOWN_ADDRESS}", "", *lines):
        console.print(Text.from_ansi(line, style="bold green" if line.startswith(PROMPT) else ""))
    # The reader's own monospace font will do: a picture in a README should fetch nothing.
    svg = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="Ottla"), flags=re.DOTALL)
    PICTURE.write_text(svg)
    print(PICTURE)


if __name__ == "__main__":
    main()
