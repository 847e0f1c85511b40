"""Text for people.

text      what strangers wrote, made fit to be printed, and printed
notices   warnings, on stderr
progress  what a command is doing, while it takes a moment
sizes     bytes as people read them
"""
