"""The kernel's ids: of the time since it was started, and of each mount of a file system.

statx(2) gives, since Linux 6.8, an id of the mount that is never given again. In its answer, 256 bytes:

    at    size  field
    0x00     4  which fields are filled in; bit 0x4000 is the unique mount id
    0x90     8  the mount id
"""

from __future__ import annotations

import ctypes
import os
import sys

BOOT_ID = "/proc/sys/kernel/random/boot_id"

_ANSWER_BYTES, _MASK_AT, _MOUNT_AT = 256, 0x00, 0x90
_UNIQUE_MOUNT_ID = 0x4000
_AT_FDCWD = -100


def boot_and_mount_id(path: str) -> str:
    """Return both ids for the file system of `path`; empty if the kernel does not say."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
        mount = _unique_mount_id(path)
    except (OSError, AttributeError):  # no such file, no such function in the C library
        return ""
    return "" if mount is None else f"{boot}/{mount}"


def _unique_mount_id(path: str) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    answer = ctypes.create_string_buffer(_ANSWER_BYTES)
    if libc.statx(_AT_FDCWD, os.fsencode(path), 0, _UNIQUE_MOUNT_ID, answer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    if not int.from_bytes(answer.raw[_MASK_AT : _MASK_AT + 4], sys.byteorder) & _UNIQUE_MOUNT_ID:
        return None
    return int.from_bytes(answer.raw[_MOUNT_AT : _MOUNT_AT + 8], sys.byteorder)
