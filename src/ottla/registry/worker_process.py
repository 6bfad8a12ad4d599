"""The process that parses and checks schemas: jobs come on standard input, results go to standard output.

Each is a length (4 bytes) and a pickle. The first result, None, says that the process is ready. It ends when
its input does.
"""

from __future__ import annotations

import pickle
import resource
import signal
import sys
from typing import Any, BinaryIO

from ottla.registry import jobs

LENGTH_BYTES = 4
MAX_MEMORY_BYTES = 2 * 1024**3


def _send(out: BinaryIO, outcome: Any) -> None:
    body = pickle.dumps(outcome)
    out.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
    out.flush()


def outcome_of(job: jobs.Job) -> Any:
    """Do a job; return its result, or the error that it ended with."""
    try:
        try:
            return job.run()
        except MemoryError:  # perhaps the schemas of earlier jobs have it
            jobs.forget()
            return job.run()
    except jobs.InvalidSchema as error:
        return error
    except (MemoryError, RecursionError):
        return jobs.InvalidSchema("the schema is too large, or nested too deeply")
    except Exception as error:
        return jobs.JobFailed(f"{type(error).__name__}: {error}")


def main() -> None:
    """Do jobs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to the whole terminal; our parent ends us
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    jobs.warm_up()
    given, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not end up among the results
    _send(out, None)
    while length := given.read(LENGTH_BYTES):
        job = pickle.loads(given.read(int.from_bytes(length, "big")))  # noqa: S301 (written by our parent)
        _send(out, outcome_of(job))


if __name__ == "__main__":
    main()
