"""What an algorithm is written against: rounds as generators, records and their codec, replies, checkpoints."""
