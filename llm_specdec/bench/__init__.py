"""Does a drafter earn its place on this machine?

command    from a command line's wishes to a verdict
prompts    built-in text of a wanted length        sessions   the engine behind a bench
runs       parity, then runs in turn               rules      means, gains and the gate
store      bench.db                                results    a stored bench summed up
table      a bench as text                         report     a bench as a page
machine    where it ran                            standing   whether its verdict still holds
"""
