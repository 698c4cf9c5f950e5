"""Platforms that train as one program: their weights stacked, a layer of all of them one batched product."""
