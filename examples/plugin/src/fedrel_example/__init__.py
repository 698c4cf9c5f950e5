"""Plug-ins for fedrel: FedNova, an extractor of segment means, a denoiser that takes maxima, a format of columns."""
