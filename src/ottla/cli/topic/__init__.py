"""`ottla topic`: create, list, describe, alter, trim and delete topics.

Reading order: `command`, `view` (what describe shows), `patterns` (names such as `orders-*`), `storage`
(sizes), `trim` (DeleteRecords).
"""
