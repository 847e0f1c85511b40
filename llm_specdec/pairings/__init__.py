"""Pairings of a target and a drafter.

registry   the pairings, in specdec.toml
choose     which drafter a target gets
helpers    drafters kept out of llm's lists
"""
