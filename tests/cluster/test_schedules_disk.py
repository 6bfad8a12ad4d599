"""Disks that lose power, run full or lie, under load on the whole cluster."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.conditions import ClusterMaker, ConditionedCluster, Conditions
from tests.cluster.damage import flip
from tests.cluster.history import Place
from tests.cluster.mounts import CannotMount, CuttableDisk, small_tmpfs
from tests.cluster.reading import segment_files
from tests.cluster.trial import TOPIC, Trial

from ottla.client import Admin
from ottla.common.ids import TopicPartition
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess, wait_until

pytestmark = [pytest.mark.cluster]

SMALL_DISK = "96m"


@contextmanager
def cuttable_disk(folder: Path) -> Iterator[CuttableDisk]:
    try:
        disk = CuttableDisk(folder, size_mb=512)
    except CannotMount as reason:
        pytest.skip(f"no loop mounts: {reason}")
    try:
        yield disk
    finally:
        disk.close()


@pytest.mark.root
def test_the_power_of_all_brokers_is_cut_at_once(tmp_path: Path, under_conditions: ClusterMaker) -> None:
    """With flush-on-ack every record was on all disks in sync before it was acknowledged."""
    with cuttable_disk(tmp_path) as disk:
        cluster = under_conditions(disks=dict.fromkeys((1, 2, 3), disk.path))
        with cluster, Trial(cluster, {"flush.messages": "1"}, keeps_commits=False) as trial:
            for _ in range(2):
                trial.run_for(1)
                cut_power(disk, cluster)
                cluster.start_together(cluster.brokers)
                print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")


def cut_power(disk: CuttableDisk, cluster: ClusterProcess) -> None:
    """Cut the power of the disk and of all brokers, and give it back to the disk."""
    for broker in cluster.running():
        os.kill(broker.pid, signal.SIGSTOP)  # what it has sent by now was on the disk
    disk.cut_power()
    for broker in cluster.brokers.values():
        broker.kill()
    disk.restore_power()


@pytest.mark.root
def test_the_disk_of_one_broker_runs_full(tmp_path: Path, under_conditions: ClusterMaker) -> None:
    """It leads one partition and follows the others. Others go on without it (decision 0032) until there is
    room; or it gives up if it could not flush.
    """
    try:
        with small_tmpfs(tmp_path / "small", SMALL_DISK) as small:
            cluster = under_conditions(disks={1: small})
            with cluster, Trial(cluster) as trial:
                trial.run_for(trial.choose.random())
                fill(small / "ballast")
                print(f"acks=all resumed {trial.wait_for_acks():.2f} s after the disk was full")
                assert 1 not in {cluster.leader_of(*place) for place in trial.places}
                trial.run_for(2)
                (small / "ballast").unlink()
                if not cluster.brokers[1].is_running:
                    print("broker 1 had given up")
                    cluster.brokers[1].kill()
                    cluster.start(1)
                cluster.wait_until_in_sync()
                trial.wait_for_acks()
    except CannotMount as reason:
        pytest.skip(str(reason))


class OnTwoDisks(ConditionedCluster):
    """Broker 1 has a second log directory, on a disk with more space."""

    @property
    def second(self) -> Path:
        return self.data / "broker-1-second"

    def make_broker(
        self, number: int, settings: dict[str, str], arguments: list[str], environment: dict[str, str]
    ) -> BrokerProcess:
        """Return a broker on its disks."""
        more = ["--data", str(self.second)] if number == 1 else []
        return super().make_broker(number, settings, [*arguments, *more], environment)


class TwoDisksTrial(Trial):
    """A trial that finds the replicas of broker 1 in its two directories."""

    def directory(self, number: int, place: Place) -> Path:
        """Return the log directory of a replica."""
        path = super().directory(number, place)
        topic, partition = place
        return path if (path / f"{topic}-{partition}").exists() else path.parents[1] / "broker-1-second"


@pytest.mark.root
def test_one_of_two_disks_of_a_broker_runs_full(tmp_path: Path) -> None:
    """Others lead what is on it (decision 0300); the broker leads what is on its other disk."""
    try:
        with small_tmpfs(tmp_path / "small", SMALL_DISK) as small:
            cluster = OnTwoDisks(tmp_path, Conditions(), disks={1: small})
            with cluster, TwoDisksTrial(cluster) as trial:
                led = {at for at, each in cluster.view().partitions.items() if each.leader == 1}
                (inside,) = led & set(trial.places)
                with Admin(cluster.bootstrap) as admin:
                    at, path = TopicPartition(*inside), str(small / "broker-1")
                    assert admin.alter_replica_log_dirs(1, {at: path}) == {at: None}
                wait_until(lambda: inside in logs_in(Path(path)), 30.0, lambda: f"{inside} was not moved")
                assert not (led - {inside}) & logs_in(Path(path))
                fill(small / "ballast")
                wait_until(lambda: cluster.leader_of(*inside) != 1, 30.0, lambda: "broker 1 leads on")
                print(f"acks=all resumed {trial.wait_for_acks():.2f} s after the leader moved")
                after = cluster.view().partitions
                assert {at for at, each in after.items() if each.leader == 1} == led - {inside}
                assert {at for at, each in after.items() if 1 not in each.in_sync} == {inside}
                said = cluster.brokers[1].stderr_path.read_text()
                assert f"the disk of {path} is full: others lead the replicas in it" in said
                (small / "ballast").unlink()
                cluster.wait_until_in_sync()
                trial.wait_for_acks()
    except CannotMount as reason:
        pytest.skip(str(reason))


def logs_in(path: Path) -> set[Place]:
    """Return the partitions whose logs are in a directory, copies that are being made aside."""
    names = [each.name.rpartition("-") for each in path.iterdir() if each.is_dir()]
    return {(topic, int(number)) for topic, _, number in names if number.isdigit()}


def test_a_broker_comes_back_with_an_empty_disk(under_conditions: ClusterMaker) -> None:
    """First the leader, after all brokers died at once, so that none was elected; then a follower alone."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        leader = trial.leader()
        others = cluster.brokers.keys() - {leader}
        for number in (*others, leader):
            cluster.kill(number)
        shutil.rmtree(cluster.brokers[leader].data)
        cluster.start(leader)
        cluster.start_together(others)
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.wait_until_in_sync()
        follower = trial.follower()
        cluster.kill(follower)
        shutil.rmtree(cluster.brokers[follower].data)
        trial.wait_for_acks()
        cluster.start(follower)
        cluster.wait_until_in_sync()


def fill(path: Path) -> None:
    """Take up all the room that there is."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass


def test_a_replica_with_flipped_bits_and_a_torn_end(under_conditions: ClusterMaker) -> None:
    """It was killed, and what was not flushed is damaged: it must take the truth from the others."""
    settings = {"log.flush.offset.checkpoint.interval.ms": "3600000"}
    choose = random.Random(5)
    with under_conditions(settings=settings) as cluster, Trial(cluster) as trial:
        for _ in range(2):
            trial.run_for(1)
            victim = trial.follower()
            cluster.kill(victim)
            for _, partition in trial.places:
                last = segment_files(cluster.brokers[victim].data, (TOPIC, partition))[-1]
                size = last.stat().st_size
                os.truncate(last, size - choose.randrange(min(size, 2_000)))
                for _ in range(3):
                    flip(last, choose.randrange(max(1, last.stat().st_size)))
            trial.wait_for_acks()
            cluster.start(victim)
            cluster.wait_until_in_sync()
