"""Roles: what a person may do in the console. The broker's ACLs still decide what really happens."""

from __future__ import annotations

from enum import IntEnum

_ALTER, _ALTER_CONFIGS, _CREATE = 7, 11, 5
"""Codes of operations, as in DescribeCluster's authorized operations."""
_UNKNOWN = -(2**31)


class Role(IntEnum):
    """The higher ones may do all that the lower ones may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """Return its name."""
        return self.name.lower()


VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN


def role_from_operations(operations: int) -> Role:
    """Return the role of a principal by what it may do to the cluster.

    Alter or AlterConfigs make an admin, Create an operator. A cluster that does not say has no authorizer.
    """
    if operations == _UNKNOWN:
        return ADMIN
    if operations & (1 << _ALTER) or operations & (1 << _ALTER_CONFIGS):
        return ADMIN
    return OPERATOR if operations & (1 << _CREATE) else VIEWER


def parse_role(text: str) -> Role:
    """Return the role of a name; ValueError if there is none."""
    try:
        return Role[text.upper()]
    except KeyError:
        raise ValueError(f"{text!r} is not a role: viewer, operator or admin") from None
