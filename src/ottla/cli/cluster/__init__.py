"""`ottla cluster`.

Reading order: command, view, health, storage, maintenance, reassign, plans, balance, move_replicas,
declared, spec_file, backup, rebuild.
"""
