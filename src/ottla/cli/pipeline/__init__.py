"""`ottla pipeline`. Reading order: command, options, run, view, status, check, copy, dlq
(dead letters), offsets, unit (systemd)."""
