"""Benchmarks: `make bench`. Each prints one table; nothing here asserts a speed."""
