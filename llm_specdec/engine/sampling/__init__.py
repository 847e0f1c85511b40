"""From logits to tokens.

sampler             penalise, constrain, draw: the way of every row of a run
draft_sampler       the same, lent to a drafter for one round
logits_processors   penalties and truncation
accept              which draft tokens stay, and the token that the target adds
randomness          keys that depend on seed and position alone
"""
