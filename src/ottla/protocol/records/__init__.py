"""Record batches (magic 2).

Reading order: batch (the header), records, compression, control (transaction markers), record_encoder and
record_decoder (fast paths for clients), value_encoder (plain values in bulk), compiled (selects the compiled
decoder), checksum (CRC-32C).
"""
