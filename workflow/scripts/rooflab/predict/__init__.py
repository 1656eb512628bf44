"""What a model's decode step would take on cards that were measured with other models."""
