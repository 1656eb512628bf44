"""How numbers, formats and sentences look: texts in every language, units, colours."""
