"""The paper's experiments as small programs over the rooms below: many trainings, one number."""
