"""Traffics of allocations, of patterns, of fat trees and from files."""
