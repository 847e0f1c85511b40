"""Which tokens may come next.

schemas            JSON schemas as grammars, or why not
finite             whether an answer to a schema can end
masks              the protocol, and masks over the vocabulary
grammar            a grammar as a constraint
forced_completion  ending a text in time
thinking_budget    at most so many tokens of thinking
after_thinking     a grammar for the answer of a model that thinks first
"""
