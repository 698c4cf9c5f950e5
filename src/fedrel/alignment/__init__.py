"""Distant supervision, its two ends: what a knowledge base says (kb.py), and where its entities stand in a text
(gazetteer.py).
"""
