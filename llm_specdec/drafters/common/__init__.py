"""What several kinds share.

fields           a config, each field of it read or refused; no tensors
language_model   a target or a small model, without the tensors of a head beside it
lender           what a drafter borrows of the target
shortlist        drafting over the common tokens alone
"""
