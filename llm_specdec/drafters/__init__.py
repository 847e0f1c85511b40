"""Drafters, one folder for each kind.

A folder's `__init__` is the face of its kind: plain Python, read without loading an engine. Its
tensors lie beside it and are imported by `Kind.load`, once something runs.

kind        what the package asks of a kind, with the answers that most kinds give
table       the kinds there are, the only list of them
recognise   a folder, as a target or as a drafter of some kind
published   drafters to download for popular targets, a list
fit         which drafter suits which target, what a draft costs, which lane is best
common      what several kinds share
"""
