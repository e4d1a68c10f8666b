"""A model as one file that others can run: ONNX or torch.export, compared with the model before it is there."""
