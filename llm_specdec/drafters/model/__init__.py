"""A small autoregressive model with the tokenizer of the target."""
