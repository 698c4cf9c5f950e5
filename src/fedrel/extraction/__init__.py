"""From new text to facts: candidate pairs, scores, and how facts are written."""
