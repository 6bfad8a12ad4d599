"""Tests of pipelines: `cases` reads samples and compares results, `runs` runs a case."""
