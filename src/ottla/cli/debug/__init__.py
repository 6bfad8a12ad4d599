"""`ottla debug`: what is needed to look into a problem elsewhere, without secrets.

Reading order: `command` (the options), `collect` (the parts of a bundle), `redact` (what is left out).
"""
