"""`ottla consume`: read records of topics to standard output.

Reading order: `command` (the options), `reading` (partitions from where to where), `group_reading` (as a
member of a consumer group), `pretty` (a record as one line for a terminal).
"""
