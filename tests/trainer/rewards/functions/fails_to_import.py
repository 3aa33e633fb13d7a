raise RuntimeError("half\nwritten")
