"""JSON Schema: loading into nodes and comparing them.

model, resolver                 nodes; what `$ref` points to
loader, modern_loader           drafts 4 to 7; 2019-09 and 2020-12
compatibility                   compares two schemas with object_comparison, array_comparison and
                                combination_comparison
differences                     what they note
schema                          a parsed schema
"""
