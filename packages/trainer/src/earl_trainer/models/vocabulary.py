"""Whether two tokenizers mean the same by their ids."""

import hashlib
import json

from transformers import PreTrainedTokenizerBase


def vocabulary_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the SHA-256 of a tokenizer's vocabulary: equal ones read ids alike."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest()
