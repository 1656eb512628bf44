"""What the chip and its vendor say of a figure: vendor peaks, the clock inside a block, physical limits, seconds of load."""
