TABLE = bytearray(1024**3)
