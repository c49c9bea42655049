"""The memory, the evaluator and the documentation for other agents, over the Model Context Protocol.

What the tools do is workbench's business, how they are offered is server's. Needs the extra `mcp`.
"""
