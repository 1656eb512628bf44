"""How anything is measured: the frame of a paid program, timing, search, sign of life; not what is measured."""
