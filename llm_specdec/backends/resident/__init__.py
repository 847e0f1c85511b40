"""The resident worker: a process that keeps one target in memory and answers prompt after prompt.

One process a target, whatever the pairings: they share its weights, and the operating system
takes all of its memory back at the moment it ends.

client     `execute` by way of a worker; imports nothing heavy
server     the worker process itself
starting   finds the worker of a target, or starts the one that there may be
control    asks workers what they hold, and stops them
room       has idle workers make way
wire       messages between the two, and who may send them
places     the folder of sockets, locks and logs
"""
