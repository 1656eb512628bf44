"""Several sessions side by side: who is slower, and what the records say of it."""
