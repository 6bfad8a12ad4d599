"""The pages of the console and what they change, one module per page.

In the order of the navigation: overview, brokers, reassignments, topics, messages, statistics, producing
(what a person types, into bytes), copying (messages to another topic), groups, transactions, schemas,
connectors, pipelines, acls, users, tokens, audit.
"""

from __future__ import annotations

from ottla.console.table import Section
from ottla.console.views.acls import SECTION as ACLS
from ottla.console.views.audit import SECTION as AUDIT
from ottla.console.views.brokers import SECTION as BROKERS
from ottla.console.views.connectors import SECTION as CONNECTORS
from ottla.console.views.copying import SECTION as COPYING
from ottla.console.views.groups import SECTION as GROUPS
from ottla.console.views.messages import SECTION as MESSAGES
from ottla.console.views.overview import SECTION as OVERVIEW
from ottla.console.views.pipelines import SECTION as PIPELINES
from ottla.console.views.reassignments import SECTION as REASSIGNMENTS
from ottla.console.views.schemas import SECTION as SCHEMAS
from ottla.console.views.statistics import SECTION as STATISTICS
from ottla.console.views.tokens import SECTION as TOKENS
from ottla.console.views.topics import SECTION as TOPICS
from ottla.console.views.transactions import SECTION as TRANSACTIONS
from ottla.console.views.users import QUOTA_SECTION as QUOTAS
from ottla.console.views.users import USERS

SECTIONS: tuple[Section, ...] = (
    OVERVIEW,
    TOPICS,
    MESSAGES,
    STATISTICS,
    COPYING,
    GROUPS,
    TRANSACTIONS,
    SCHEMAS,
    CONNECTORS,
    PIPELINES,
    BROKERS,
    REASSIGNMENTS,
    USERS,
    ACLS,
    QUOTAS,
    TOKENS,
    AUDIT,
)
