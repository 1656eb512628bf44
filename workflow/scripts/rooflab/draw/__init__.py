"""The pictures, from roofline.json; computes coordinates and nothing else."""
