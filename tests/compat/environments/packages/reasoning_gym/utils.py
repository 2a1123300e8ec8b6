"""What models are told."""

SYSTEM_PROMPTS = {"default": "Write <answer>...</answer>."}
