"""What a run will take, and what it has cost."""
