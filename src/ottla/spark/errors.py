"""What users of the source and the sink are told when something cannot be done."""

from __future__ import annotations


class SparkError(Exception):
    """Base of the errors of `ottla.spark`; the message says what happened, why, and what to do."""


class WrongOption(SparkError):
    """An option that does not exist, does not fit, or does not go with another one."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option


class DataLoss(SparkError):
    """Records that the query has still to read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some records may be gone before they were read. To go on with what is there, set the "
            "option failOnDataLoss to false"
        )


class StaleCheckpoint(SparkError):
    """The checkpoint is older than what the query has already written."""


class Superseded(SparkError):
    """Another run of the same query has taken over."""


class SameSinkTwice(SparkError):
    """Two writes of one batch have the same sink name."""


class TransactionLost(SparkError):
    """A transaction that was prepared is not there any more."""


class TwoPhaseCommitOff(SparkError):
    """The broker does not allow prepared transactions."""
