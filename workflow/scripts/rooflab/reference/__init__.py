"""What is computed and its float64 truth, over an array module that is handed in; no clock, no GPU."""
