"""Text for people.

notices   warnings and progress, on stderr
sizes     bytes as people read them
"""
