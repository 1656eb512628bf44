"""FLOP, bytes, number formats, the vendor's figures: arithmetic with its sources; no array, GPU, clock or file but its own table."""
