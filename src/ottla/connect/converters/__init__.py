"""Converters: bytes of topics to values of Connect, and back."""
