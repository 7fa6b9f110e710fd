# __main__: error: line 5: the program ends by itself (exit 1) before it builds a network
import sys

if len(sys.argv) < 2:
    sys.exit(1)
