"""Run workloads against the peers, in turns, and write the report.

    make bench-peers                                          everything: about an hour, and the soak's two
    python -m benchmarks.peers --full                         twice the records, every case in every round
    python -m benchmarks.peers --quick                        every workload, a twentieth of the records
    python -m benchmarks.peers --only latency --case 10,000   some
    python -m benchmarks.peers --report                       docs/performance.md anew from build/bench/

Peers take turns (A B A B ...), each with the others stopped and with new data; rounds after the first
measure only what has a goal, and Kafka 3.9 does only that, once. A case that fails is noted, and the run goes
on. The soak is a command of its own: python -m benchmarks.peers.soak.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.interop.fetch_jars import MEASURED_KAFKA, OLDER_KAFKA, fetch

from benchmarks.measure import machine
from benchmarks.peers import report, results
from benchmarks.peers.figures import figures_in
from benchmarks.peers.goals import has_goal
from benchmarks.peers.load import Figures
from benchmarks.peers.machine import about as about_machine
from benchmarks.peers.scale import HOUR_PART, QUICK_PART, Scale
from benchmarks.peers.servers import Absent, Server
from benchmarks.peers.workloads import PEERS, WORKLOADS, Workload

ROUNDS = 2


def main() -> None:
    """Run what was asked for."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # servers are ended on the way out
    if options.fetch:
        fetch(MEASURED_KAFKA)
        fetch(OLDER_KAFKA)
    elif options.report:
        report.write()
    else:
        part = QUICK_PART if options.quick else 1.0 if options.full else HOUR_PART
        wanted = [each for each in WORKLOADS if not options.only or each.name in options.only]
        for workload in wanted:
            peers = [each for each in workload.peers if not options.peer or each in options.peer]
            rounds = 1 if options.quick else options.rounds
            run(workload, peers, Scale(part, options.case), rounds, is_more=options.more)
        report.write()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="twice the records, every case in every round")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the records, one round")
    parser.add_argument("--only", action="append", choices=[each.name for each in WORKLOADS])
    parser.add_argument(
        "--case", action="append", default=[], help="only cases with this pattern in their name"
    )
    parser.add_argument("--peer", action="append", help=f"only these: {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--more", action="store_true", help="more rounds of the last run, not a new one")
    parser.add_argument("--fetch", action="store_true", help="fetch Kafka's jars and end")
    parser.add_argument("--report", action="store_true", help="only write the report")
    return parser


def run(
    workload: Workload, peers: Sequence[str], scale: Scale, rounds: int, *, is_more: bool = False
) -> None:
    """Let peers take turns; every figure is written when it is known."""
    run_name, done = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), 0
    if is_more:
        run_name, done = results.last_round(workload.name)
    print(f"{run_name}: {workload.name} on {machine()}", flush=True)
    results.append("machine", {"run": run_name, **about_machine()})
    with_goal = replace(scale, keeps=lambda case: has_goal(workload.name, case))
    for number in range(done + 1, done + rounds + 1):
        is_again = number > 1 and scale.part < 1.0 and (workload.has_goals or not is_more)
        for peer in peers:
            is_brief = peer in workload.brief
            mine = with_goal if is_again or is_brief else scale
            about = {"run": run_name, "round": number, "is_quick": scale.is_quick, "part": scale.part}
            try:
                if not is_again or (workload.has_goals and not is_brief):
                    _turn(workload, peer, mine, about)
            except Absent as absent:
                print(f"  {peer}: absent: {absent}")
                results.append("absent", {"peer": peer, "why": str(absent), **about})
            except Exception as error:
                _failed(workload, peer, "the rest of its turn", str(error), about)


def _turn(workload: Workload, peer: str, scale: Scale, about: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-peers-") as folder:
        server = PEERS[peer](Path(folder) / "server", dict(workload.settings))
        try:
            if workload.is_started:
                server.start()
            for case, figures in workload.run(server, scale):
                if "failed" in figures:
                    _failed(workload, peer, case, figures["failed"], about)
                else:
                    _note(workload, server, case, {**about, **figures})
        finally:
            server.close()


def _note(workload: Workload, server: Server, case: str, figures: Figures) -> None:
    row = {"workload": workload.name, "case": case, "peer": server.name, "version": server.version, **figures}
    results.append(workload.name, {**row, "load": os.getloadavg()[0]})
    shown = ", ".join(f"{name} {value}" for name, value in figures_in(figures).items())
    print(f"  {server.name}: {case}\n    {shown} {figures.get('limit', '')}", flush=True)


def _failed(workload: Workload, peer: str, case: str, why: str, about: Figures) -> None:
    print(f"  {peer}: {case} FAILED: {why}", flush=True)
    results.append("failed", {"workload": workload.name, "peer": peer, "case": case, "why": why, **about})


if __name__ == "__main__":
    main()
