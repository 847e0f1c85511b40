"""Measurements that nobody imports."""
