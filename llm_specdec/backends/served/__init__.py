"""A served engine: another program, often on a bigger machine, runs target and drafter.

engines     what each engine knows: the words for settings, what it cannot honour, what it tells
asking      plan and request → the body that is sent
figures     an engine's own record of a run → one neutral form
client      `execute` by way of the server, with the client that llm brings
waiting     waiting for the server, looking at `cancelled` meanwhile
failures    what a server or the way to it did wrong, one line each
detection   what answers at an address: engine, version, models
counters    what a server counts over all its requests
looking     what both of them ask, within limits of time and size
keys        the key of a server, from `llm keys`, and where it may be sent
tokenizers  what the model's tokenizer tells before the server is asked
"""
