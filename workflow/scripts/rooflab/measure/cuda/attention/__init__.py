"""Decode attention on a GPU, several ways, and the launch configurations that are tried."""
