"""Which machine this is and whether it may measure: driver, cards, cluster, locks, examination; no CuPy."""
