"""Drafters, one module or package for each kind: lookup, model, mtp, dflash.

base        what a drafter is to the loop, and what the loop lends it
shortlist   drafting over the common tokens alone
"""
