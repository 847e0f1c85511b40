"""The reference. Its generated parts come from reference.py."""
