"""A page on the platform itself, where its own staff say which predictions are right."""
