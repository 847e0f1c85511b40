"""Drafters, one folder for each kind: lookup, model, mtp, dflash.

shortlist   drafting over the common tokens alone
"""
