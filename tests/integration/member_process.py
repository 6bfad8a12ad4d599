"""A member in a process of its own, to be stopped, continued and killed.

As a program: `python -m tests.integration.member_process LIBRARY HOST:PORT OPTIONS` prints what it owns, as
JSON, whenever that changes. It never commits and ends when its standard input does.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

from tests.integration.clients import Place
from tests.integration.members import POLL_S, Library, MemberOptions

ROOT = Path(__file__).parents[2]


class MemberProcess:
    """A `Member`, for tests that want to hurt it: `owned` is what it believes to own."""

    def __init__(self, library: Library, bootstrap: str, options: MemberOptions) -> None:
        self.owned: set[Place] = set()
        command = [sys.executable, "-m", __name__, library.name, bootstrap]
        self._process = subprocess.Popen(
            [*command, json.dumps(dataclasses.asdict(options))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._is_killed = False
        self._reader = threading.Thread(target=self._read, name="member process", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def pause(self) -> None:
        """Stop it in its tracks, heartbeats included."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, unaware."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word to the broker."""
        self._is_killed = True
        self._process.kill()
        self._process.communicate()
        self._reader.join()
        self.owned = set()

    def check(self) -> None:
        """Raise if it has ended by itself."""
        if not self._is_killed and self._process.poll() is not None:
            assert self._process.stderr is not None
            raise AssertionError(f"the member's process has ended:\n{self._process.stderr.read()}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self.owned = {(topic, index) for topic, index in json.loads(line)}
        except ValueError:
            assert self._is_killed  # in the middle of a line, or closed while being read


def main() -> None:
    from tests.integration.member_libraries import LIBRARIES

    name, bootstrap, text = sys.argv[1:]
    asked = json.loads(text)
    options = MemberOptions(**{**asked, "topics": tuple(asked["topics"])})
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    consumer = LIBRARIES[name].consumer(bootstrap, options)
    owned: set[Place] = set()
    while not ended.is_set():
        consumer.poll(POLL_S)
        if (now := consumer.assignment()) != owned:
            owned = now
            print(json.dumps(sorted(owned)), flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
