"""What writes the next candidate: search without a model, a model behind an endpoint, or any command.

The prompt is assembled elsewhere; so are the verdict and what is learned from it.
"""
