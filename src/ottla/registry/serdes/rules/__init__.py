"""Rules of data contracts: what a schema demands of its data beyond its types.

engine         which rules run when, and what happens after them
expressions    CEL and JSONata
fields         the fields of a record, with their tags, for rules about fields
field_walks    how fields are found in Avro, JSON and Protobuf data
encryption     fields and payloads, encrypted
dead_letters   records that a rule refused, sent to a topic
"""

from ottla.registry.serdes.rules.dead_letters import DeadLetters
from ottla.registry.serdes.rules.engine import RuleEngine, RuleFailed

__all__ = ["DeadLetters", "RuleEngine", "RuleFailed"]
