"""Compares verdicts on generated pairs of schemas with the laws of the levels, or with another program's.

    python -m benchmarks.registry.compatibility --pairs 2000
    python -m benchmarks.registry.compatibility --pairs 50000 --peer './some-checker'

Each pair is checked on all seven levels, in all three formats. Without a peer, the laws are checked: a
schema is compatible with itself and with its normalised form, FULL is BACKWARD and FORWARD, a transitive
level refuses if any version refuses.

A peer is a program that reads one JSON object per line, `{"type": ..., "old": ..., "new": ...}`, and answers
each with one: `{"verdicts": {"BACKWARD": [...], "FORWARD": [...], "FULL": [...], ...}, "canonical": ...,
"normalized": ...}`, the messages as Confluent's registry words them (an empty list means compatible;
`canonical` and `normalized` may be left out), or `{"error": ...}` if it refuses a schema. Levels that a peer
leaves out are not compared. Transitive levels are about two versions, `old` and then `new`. Differences are
counted by class, and the first few are shown. docs/registry.md explains the classes.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.registry.avro_pairs import avro_pair
from benchmarks.registry.json_pairs import json_pair
from benchmarks.registry.protobuf_pairs import protobuf_pair
from ottla.registry.formats import InvalidSchema, ParsedSchema, check, parse

PAIRS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "AVRO": avro_pair,
    "JSON": json_pair,
    "PROTOBUF": protobuf_pair,
}
SIMPLE = ("BACKWARD", "FORWARD", "FULL")


def pair_of(schema_type: str, seed: int, number: int) -> tuple[str, str]:
    """Return the pair with this number; the same seed gives the same pairs."""
    return PAIRS[schema_type](random.Random(f"{seed}-{number}"))


def broken_laws(old: ParsedSchema, new: ParsedSchema) -> list[str]:
    """Return the laws of the levels that the verdicts on a pair break."""
    verdicts = {level: not check(level, new, [old]) for level in SIMPLE}
    broken = []
    if check("NONE", new, [old]):
        broken.append("NONE refuses")
    if verdicts["FULL"] != (verdicts["BACKWARD"] and verdicts["FORWARD"]):
        broken.append("FULL is not BACKWARD and FORWARD")
    if verdicts["BACKWARD"] != (not check("FORWARD", old, [new])):
        broken.append("BACKWARD is not FORWARD the other way round")
    for schema in (old, new):
        if check("FULL", schema, [schema]):
            broken.append("a schema is not compatible with itself")
        same = parse(schema.schema_type, schema.normalized, validate=False)
        if check("FULL", same, [schema]):
            broken.append("a schema is not compatible with its normalised form")
        if same.normalized != schema.normalized:
            broken.append("normalising twice is not normalising once")
    for level in SIMPLE:
        if (not check(f"{level}_TRANSITIVE", new, [old, new])) != verdicts[level]:
            broken.append(f"{level}_TRANSITIVE does not look at all versions")
        if check(level, new, [old, new]):
            broken.append(f"{level} looks at more than the latest version")
    return broken


class Peer:
    """Another implementation, as a program."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, schema_type: str, old: str, new: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"type": schema_type, "old": old, "new": new, "normalize": True}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def difference(answer: dict[str, Any], old: ParsedSchema | None, new: ParsedSchema | None) -> str:
    """Return the class of the difference to a peer's answer; "" if there is none."""
    if old is None or new is None:
        return "" if "error" in answer else "only we refuse a schema"
    if "error" in answer:
        return "only the peer refuses a schema"
    theirs = answer["verdicts"]
    ours = {level: check(level, new, [old, new] if "_" in level else [old]) for level in theirs}
    if any(bool(ours[level]) != bool(theirs[level]) for level in theirs):
        return "verdict"
    if any(sorted(ours[level]) != sorted(theirs[level]) for level in theirs):
        return "messages"
    for name in ("canonical", "normalized"):
        if name in answer and answer[name] != getattr(new, name):
            return f"{name} text"
    return ""


def _parsed(schema_type: str, text: str) -> ParsedSchema | None:
    try:
        return parse(schema_type, text)
    except InvalidSchema:
        return None


def compare(schema_type: str, pairs: int, seed: int, peer: Peer | None, shown: int) -> Counter[str]:
    """Check pairs of one format; return how many came out how."""
    outcomes: Counter[str] = Counter()
    for number in range(pairs):
        old_text, new_text = pair_of(schema_type, seed, number)
        old, new = _parsed(schema_type, old_text), _parsed(schema_type, new_text)
        if peer is not None:
            found = difference(peer.ask(schema_type, old_text, new_text), old, new)
        else:
            found = "; ".join(broken_laws(old, new)) if old is not None and new is not None else ""
        if found:
            outcomes[found] += 1
            if outcomes[found] <= shown:
                print(f"{schema_type} pair {number}: {found}\n  old {old_text}\n  new {new_text}")
        elif old is None or new is None:
            outcomes["same: refused"] += 1
        else:
            outcomes["same: incompatible" if check("BACKWARD", new, [old]) else "same: compatible"] += 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1_000, help="how many pairs of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=sorted(PAIRS), action="append", help="only this format")
    parser.add_argument("--peer", help="command of another implementation")
    parser.add_argument("--show", type=int, default=2, help="how many differences of each class to show")
    arguments = parser.parse_args()
    peer = Peer(arguments.peer) if arguments.peer else None
    failed = False
    for schema_type in arguments.format or sorted(PAIRS):
        start = time.process_time()
        outcomes = compare(schema_type, arguments.pairs, arguments.seed, peer, arguments.show)
        seconds = time.process_time() - start
        print(
            f"{schema_type}: {arguments.pairs} pairs, {seconds / arguments.pairs * 1000:.2f} ms of CPU each"
        )
        for outcome, count in outcomes.most_common():
            print(f"  {count:7} {outcome}")
            failed |= not outcome.startswith("same")
    if peer is not None:
        peer.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
