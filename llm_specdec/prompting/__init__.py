"""Messages to prompt tokens, and where a model's text changes between its sections.

chat        messages to tokens, through the chat template
rendering   a conversation's text, by a template within limits
sandbox     how templates are parsed, and the process that they run in
templates   what a chat template reads
thinking    the thinking setting in a template's own words
sections    markers of thinking, answer and tool calls
text        tokens to text while they arrive: sections apart (markers)
"""
