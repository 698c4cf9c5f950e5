"""fedrel: relation extractors trained across organisations whose text stays at home."""

__all__: list[str] = []
