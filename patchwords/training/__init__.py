"""How a model is trained: the recipe, the loop, and what they are made of."""
