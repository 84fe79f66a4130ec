"""Formulas: read from text, kept as plain data, evaluated on tables."""
