"""From logits to tokens.

logits_processors   penalties and truncation
draft_sampler       the run's processors and keys, lent to a drafter for one round
accept              which draft tokens stay, and the token that the target adds
randomness          keys that depend on seed and position alone
"""
