"""What vLLM has around Transformers: model configurations and tokenizers."""
