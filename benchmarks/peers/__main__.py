"""Run workloads against the peers, in turns, and write the report.

    make bench-peers                                          everything: hours
    python -m benchmarks.peers --quick                        every workload, a twentieth of the records
    python -m benchmarks.peers --only latency --case 10,000   some
    python -m benchmarks.peers --report                       docs/performance.md anew from build/bench/

Peers take turns (A B A B ...), each with the others stopped and with new data. The soak is a command of its
own: python -m benchmarks.peers.soak.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.interop.fetch_jars import KAFKA, OLDER_KAFKA, fetch

from benchmarks.measure import machine
from benchmarks.peers import report, results
from benchmarks.peers.figures import figures_in
from benchmarks.peers.load import Figures
from benchmarks.peers.machine import about as about_machine
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Absent, Server
from benchmarks.peers.workloads import PEERS, WORKLOADS, Workload

ROUNDS = 2


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a twentieth of the records, one round")
    parser.add_argument("--only", action="append", choices=[each.name for each in WORKLOADS])
    parser.add_argument(
        "--case", action="append", default=[], help="only cases with this pattern in their name"
    )
    parser.add_argument("--peer", action="append", help=f"only these: {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--fetch", action="store_true", help="fetch Kafka's jars and end")
    parser.add_argument("--report", action="store_true", help="only write the report")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # servers are ended on the way out
    if options.fetch:
        fetch(KAFKA)
        fetch(OLDER_KAFKA)
    elif options.report:
        report.write()
    else:
        scale = Scale(options.quick, options.case)
        wanted = [each for each in WORKLOADS if not options.only or each.name in options.only]
        for workload in wanted:
            peers = [each for each in workload.peers if not options.peer or each in options.peer]
            run(workload, peers, scale, 1 if options.quick else options.rounds)
        report.write()


def run(workload: Workload, peers: Sequence[str], scale: Scale, rounds: int) -> None:
    """Let peers take turns; every figure is written when it is known."""
    run_name = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{workload.name} on {machine()}")
    results.append("machine", {"run": run_name, **about_machine()})
    for number in range(1, rounds + 1):
        for peer in peers:
            about = {"run": run_name, "round": number, "is_quick": scale.is_quick}
            try:
                _turn(workload, peer, scale, about)
            except Absent as absent:
                print(f"  {peer}: absent: {absent}")
                results.append("absent", {"peer": peer, "why": str(absent), **about})


def _turn(workload: Workload, peer: str, scale: Scale, about: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-peers-") as folder:
        server = PEERS[peer](Path(folder) / "server", dict(workload.settings))
        try:
            if workload.is_started:
                server.start()
            for case, figures in workload.run(server, scale):
                _note(workload, server, case, {**about, **figures})
        finally:
            server.close()


def _note(workload: Workload, server: Server, case: str, figures: Figures) -> None:
    row = {"workload": workload.name, "case": case, "peer": server.name, "version": server.version, **figures}
    results.append(workload.name, {**row, "load": os.getloadavg()[0]})
    shown = ", ".join(f"{name} {value}" for name, value in figures_in(figures).items())
    print(f"  {server.name}: {case}\n    {shown} {figures.get('limit', '')}", flush=True)


if __name__ == "__main__":
    main()
