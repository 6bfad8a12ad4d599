"""`ottla cluster`.

Reading order: command, view, health, storage, maintenance, reassign, plans, balance, declared,
spec_file, backup, rebuild.
"""
