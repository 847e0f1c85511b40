"""What several kinds share.

fields           a config, each field of it read or refused; no tensors
language_model   a target or a small model, without the tensors of a head beside it
lender           what a drafter borrows of the target
own_answers      a target's answers to fixed prompts, for calibration
recurrent        drafting deeper from a drafter's own states
shortlist        drafting over the common tokens alone
stored           tensors in files and into memory; which tokens a smaller output matrix has
"""
