"""What a training picture undergoes after its crop: policies, operations and their strengths."""
