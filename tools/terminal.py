"""A real terminal for tests and pictures: tmux, typed into and looked at."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

PROMPT = "$ "
LOOK_EVERY_S = 0.05
HISTORY_LINES = 5_000
_numbers = itertools.count(1)


def is_available() -> bool:
    """Return whether there is a tmux on this machine."""
    return shutil.which("tmux") is not None


class Terminal:
    """One window with a bash in it, on a tmux server of its own.

    with Terminal(folder) as terminal:
        terminal.run("ottla topic list", within_s=10)
        print(terminal.screen())
    """

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        columns: int = 80,
        lines: int = 40,
    ) -> None:
        self.folder = folder
        self.environment = {"PS1": PROMPT, "TERM": "xterm-256color", **(environment or {})}
        self.columns = columns
        self.lines = lines
        self._socket = f"ottla-{os.getpid()}-{next(_numbers)}"

    def __enter__(self) -> Self:
        shell = "env -u OTTLA_BOOTSTRAP " + " ".join(
            shlex.quote(f"{name}={value}") for name, value in self.environment.items()
        )
        size = ("-x", str(self.columns), "-y", str(self.lines))
        options = {"history-limit": str(HISTORY_LINES), "status": "off", "default-terminal": "tmux-256color"}
        # In one call, and the options first: the history of a window is as long as when it was made.
        setting = [word for name, value in options.items() for word in ("set", "-g", name, value, ";")]
        session = ("new-session", "-d", *size, "-c", str(self.folder), f"{shell} bash --norc --noprofile")
        self._tmux("-f", "/dev/null", "start-server", ";", *setting, *session)
        self.wait_for(lambda text: text.rstrip().endswith(PROMPT.strip()), within_s=20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server", must_succeed=False)

    def type(self, text: str) -> None:
        """Paste text and press Enter."""
        buffer = f"paste-{next(_numbers)}"
        self._tmux("set-buffer", "-b", buffer, "--", text)
        self._tmux("paste-buffer", "-d", "-r", "-b", buffer)
        self._tmux("send-keys", "Enter")

    def press(self, key: str) -> None:
        """Press a key, such as `C-c`."""
        self._tmux("send-keys", key)

    def run(self, command: str, *, within_s: float) -> str:
        """Paste a command, wait until the prompt is back, and return what it has put on the screen."""
        marker = f"done-{next(_numbers)}"
        before = len(self.text().splitlines())
        self.type(command)
        # Typed while the command runs: the shell reads it when it is back.
        self.type(f"echo {marker}:$?")
        found = self.wait_for(lambda text: re.search(rf"^{marker}:(\d+)$", text, re.M), within_s=within_s)
        code = int(re.findall(rf"^{marker}:(\d+)$", found, re.M)[-1])
        shown = "\n".join(found.splitlines()[max(0, before - 1) :])
        if code:
            raise AssertionError(f"{command!r} ended with exit code {code}:\n{shown}")
        return shown

    def text(self, *, colours: bool = False) -> str:
        """Return all that has been on the screen, from the first line on; lines that wrapped are one."""
        escapes = ("-e",) if colours else ()
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", *escapes).rstrip("\n") + "\n"

    def screen(self, *, colours: bool = False) -> str:
        """Return what is on the screen now."""
        return self._tmux("capture-pane", "-p", *(("-e",) if colours else ()))

    def wait_for(self, there: str | Callable[[str], object], *, within_s: float) -> str:
        """Wait for a text, or until a function of all the text says yes; return the text."""
        look = (lambda text: there in text) if isinstance(there, str) else there
        deadline = time.monotonic() + within_s  # noqa: TID251
        while True:
            text = self.text()
            if look(text):
                return text
            if time.monotonic() > deadline:  # noqa: TID251
                raise AssertionError(f"not seen within {within_s:g} s; the terminal shows:\n{text}")
            time.sleep(LOOK_EVERY_S)

    def _tmux(self, *arguments: str, must_succeed: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, check=False
        )
        if must_succeed and done.returncode:
            raise RuntimeError(f"tmux {arguments[0]}: {done.stderr}")
        return done.stdout
