"""Pairings of a target and a drafter.

registry       the pairings, in specdec.toml
choose         which drafter a target gets
switched_off   why a pairing is off, and how it drafts again
helpers        drafters kept out of llm's lists
anew           the command that adds a pairing anew
"""
