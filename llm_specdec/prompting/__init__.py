"""Messages to prompt tokens, and where a model's text changes between its sections.

chat        messages to tokens, through the chat template
templates   what a chat template reads
thinking    the thinking setting in a template's own words
sections    markers of thinking, answer and tool calls
"""
