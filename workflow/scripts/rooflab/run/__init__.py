"""What touches Snakemake: targets, guards, the price list, the console."""
