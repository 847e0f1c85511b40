"""Text for people.

text      what strangers wrote, made fit to be printed, and printed
notices   warnings and progress, on stderr
sizes     bytes as people read them
"""
