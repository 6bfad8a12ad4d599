"""Coordinators: pure state machines over partitions of internal topics, and the IO around them."""
