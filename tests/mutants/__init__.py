"""Mutation testing: how many small mistakes, put into the code one at a time, do the tests find?"""
