"""File systems of our own to fill up and to cut the power of. All of it needs root."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING = 2


class CannotMount(Exception):
    """Mounts are not possible here; the message says why."""


def run(*command: str) -> None:
    """Run a command; CannotMount with its words if it fails."""
    if shutil.which(command[0]) is None:
        raise CannotMount(f"there is no {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CannotMount(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


def need_root() -> None:
    if os.geteuid() != 0:
        raise CannotMount("it needs root")


@contextmanager
def small_tmpfs(at: Path, size: str, *, inodes: int = 0) -> Iterator[Path]:
    """Mount a tmpfs that is soon full."""
    need_root()
    at.mkdir()
    limits = f"size={size}" + (f",nr_inodes={inodes}" if inodes else "")
    run("mount", "-t", "tmpfs", "-o", limits, "ottla-test", str(at))
    try:
        yield at
    finally:
        run("umount", "-l", str(at))


class CuttableDisk:
    """An ext4 file system in a file, whose power can be cut: what was not flushed is gone."""

    def __init__(self, folder: Path, size_mb: int = 192) -> None:
        need_root()
        self.image = folder / "disk.img"
        self.path = folder / "disk"
        self.path.mkdir()
        with self.image.open("wb") as file:
            file.truncate(size_mb << 20)
        run("mkfs.ext4", "-q", str(self.image))
        self.mount()

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self.image), str(self.path))

    def unmount(self) -> None:
        run("umount", str(self.path))

    def cut_power(self) -> None:
        """From now on nothing reaches the disk, and what has not is lost."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(folder)

    def restore_power(self) -> None:
        """Mount what is on the disk, as a copy; no process may have files open.

        Whoever made a mount namespace meanwhile, as `ip netns exec` does, still has the dead file system
        mounted there. The kernel would give us that one again for the same image.
        """
        self.unmount()
        copy = self.image.with_suffix(".copy")
        run("cp", "--sparse=always", str(self.image), str(copy))
        copy.replace(self.image)
        self.mount()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], capture_output=True, check=False)
        self.image.unlink(missing_ok=True)
