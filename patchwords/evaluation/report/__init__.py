"""What a model said of pictures, shown: for the report of a run and for that of an evaluation."""
