"""What two or more stages of the workflow share. See workflow/README.md for the rooms and who may import what."""
