"""What touches llm: its models, a prompt's way through them, events and interrupts.

models         the llm models, sync and async
answer         one prompt: settings, request, text as it comes, receipt
events         pieces of text as llm's stream events, tool calls read
interrupts     Ctrl-C keeps what was said
model_thread   the one thread of a process that runs models
mentions       where llm itself names a model id
reminders      what is said once a day
options        what llm was told on its command line and by stored options
"""
