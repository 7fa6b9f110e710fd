import os

b = b"x" * 65536
while True:
    os.write(1, b)
