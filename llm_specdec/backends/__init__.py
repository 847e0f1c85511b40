"""Preparing a run and running it.

setup   a pairing as it will run: settings, lane, weights, receipt
costs   measured costs of rounds, kept between runs
"""
