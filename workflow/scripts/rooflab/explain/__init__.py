"""Prose, tables, pages and closing lines, from roofline.json; computes nothing."""
