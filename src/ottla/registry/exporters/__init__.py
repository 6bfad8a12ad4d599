"""Exporters: copy schemas to another registry and keep the copy up to date (Confluent's Schema Linking).

records     the topic `_exporters`: what is exported where, and how it goes
decisions   what requests change
plan        which schemas the other registry is to have, under which names
copier      makes another registry have them
runner      runs the exporters, in one process at a time
"""
