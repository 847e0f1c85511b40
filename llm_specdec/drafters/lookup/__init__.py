"""Prompt lookup: no weights."""
