"""The errors of the source and the sink."""

from __future__ import annotations


class SparkError(Exception):
    """Base of the errors of `ottla.spark`; the message says what happened, why, and what to do."""


class WrongOption(SparkError):
    """An option that does not exist, is invalid, or contradicts another one."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option


class DataLoss(SparkError):
    """Records that the query has not read yet were deleted."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some records may have been deleted before they were read. To continue with the "
            "existing records, set the "
            "option failOnDataLoss to false"
        )


class StaleCheckpoint(SparkError):
    """The checkpoint is older than the output of the query."""


class Superseded(SparkError):
    """Another run of the same query has taken over."""


class SameSinkTwice(SparkError):
    """Two writes of one batch have the same sink name."""


class TransactionLost(SparkError):
    """A prepared transaction was ended by another process."""


class TwoPhaseCommitOff(SparkError):
    """The broker does not allow prepared transactions."""
