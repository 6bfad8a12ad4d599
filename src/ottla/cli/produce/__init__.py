"""`ottla produce`: write records to a topic.

Reading order: `command` (the options), `line_reader` (a line becomes a record), `sending` (until the end).
"""
