"""A network of our own: every machine of a cluster in a network namespace, on one bridge. Needs root.

    with Network(["one", "two"]) as network, network.inside():
        ... programs wrapped by network.wrapper("one") have the address network.address("one") ...
        network.cut("one", "two")            # silently, both ways
        network.cut_one_way("one", "two")    # what one sends to two is lost, not the other way round
        network.heal()

A namespace lives as long as the process that holds it open, and that dies with us: nothing is left behind.
A cut is made where packets are addressed: the neighbour's hardware address becomes an unused one, so
what is sent there is lost without a word, as on a broken cable.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from ottla.common.processes import die_with_parent

CLONE_NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:01"
HUB = "hub"
PREFIX = "10.77.0"

_libc = ctypes.CDLL(None, use_errno=True)


class NoNamespaces(Exception):
    """Network namespaces cannot be made here; the message says why."""


class Network:
    """Machines on a bridge. The bridge itself is in the namespace of the test, which reaches all of them."""

    def __init__(self, machines: Sequence[str]) -> None:
        if os.geteuid() != 0:
            raise NoNamespaces("network namespaces need root")
        for program in ("ip", "nsenter", "unshare"):
            if shutil.which(program) is None:
                raise NoNamespaces(f"there is no {program}")
        self._numbers = {name: number for number, name in enumerate(machines, 1)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._cuts: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
        self._holders.clear()

    def address(self, machine: str) -> str:
        """Return the address of a machine."""
        return f"{PREFIX}.{self._numbers[machine]}"

    def wrapper(self, machine: str) -> list[str]:
        """Return what to put before a command so that it runs on a machine."""
        return ["nsenter", f"--net=/proc/{self._holders[machine].pid}/ns/net"]

    def cut(self, one: str, other: str) -> None:
        """Lose everything between two machines."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Lose everything that one machine sends to another."""
        self._ip(sender, *self._neighbour("replace", receiver), "lladdr", NOBODY, "nud", "permanent")
        self._cuts.add((sender, receiver))

    def heal(self) -> None:
        """Undo every cut."""
        for sender, receiver in self._cuts:
            self._ip(sender, *self._neighbour("del", receiver))
        self._cuts.clear()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread, and those that it starts, talk to the machines."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        hub = os.open(f"/proc/{self._holders[HUB].pid}/ns/net", os.O_RDONLY)
        try:
            _enter(hub)
            yield
        finally:
            _enter(before)
            os.close(hub)
            os.close(before)

    def _neighbour(self, verb: str, machine: str) -> list[str]:
        return ["neigh", verb, self.address(machine), "dev", "eth0"]

    def _make(self) -> None:
        for name in (HUB, *self._numbers):
            self._hold(name)
        self._ip(HUB, "link", "add", "bridge", "type", "bridge")
        self._ip(HUB, "address", "add", f"{PREFIX}.254/24", "dev", "bridge")
        self._ip(HUB, "link", "set", "bridge", "up")
        for name, number in self._numbers.items():
            port, holder = f"port{number}", str(self._holders[name].pid)
            self._ip(HUB, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", holder)
            self._ip(HUB, "link", "set", port, "master", "bridge")
            self._ip(HUB, "link", "set", port, "up")
            self._ip(name, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            self._ip(name, "link", "set", "eth0", "up")

    def _hold(self, name: str) -> None:
        """Make a namespace, and a process that keeps it."""
        script = "ip link set lo up && echo held && exec sleep infinity"
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, preexec_fn=die_with_parent
        )
        self._holders[name] = holder
        assert holder.stdout is not None
        if holder.stdout.readline() != b"held\n":
            raise NoNamespaces("network namespaces are not permitted here")

    def _ip(self, machine: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self.wrapper(machine), "ip", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NoNamespaces(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET):
        raise NoNamespaces(f"setns: {os.strerror(ctypes.get_errno())}")
