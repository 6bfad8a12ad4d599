"""Make docs/quickstart.svg, the picture in the README, from a real run. Run it with: make picture."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ottla.testing.broker_process import BrokerProcess

PICTURE = Path(__file__).parents[1] / "docs" / "quickstart.svg"
COMMANDS = [
    "ottla topic create orders --partitions 3",
    "seq 1 1000000 | ottla produce orders",
    "ottla consume orders --offset -2 --exit --format '%t-%p @%o: %v\\n'",
    "ottla topic describe orders",
]


def main() -> None:
    """Run the commands and draw what they print."""
    console = Console(record=True, width=84, file=io.StringIO())
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data") as broker:
        console.print(Text("$ make serve", style="bold green"))
        console.print(Text("ready 127.0.0.1:9092\n"))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for command in COMMANDS:
            console.print(Text(f"$ {command}", style="bold green"))
            done = subprocess.run(
                ["bash", "-c", command],
                env={**os.environ, "PATH": path, "OTTLA_BOOTSTRAP": broker.address, "COLUMNS": "84"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
            )
            console.print(Text(done.stdout.rstrip() + "\n"))
    # The reader's own monospace font will do: a picture in a README should fetch nothing.
    svg = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="Ottla"), flags=re.DOTALL)
    PICTURE.write_text(svg)
    print(PICTURE)


if __name__ == "__main__":
    main()
