"""Ottla: an event-streaming platform in Python that speaks the Apache Kafka protocol."""

__version__ = "0.1.0"
