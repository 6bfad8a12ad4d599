"""Consumer groups, as pure state machines: no IO, no clock, no randomness."""
