"""Learning from users who say whether a prediction is right: who they are, what they said, how it is used."""
