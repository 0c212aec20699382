"""The extender's native API as its clients see it: the types of requests and answers, and a typed client.

The extender serves these types. The console and the commands read them. Neither imports the extender.
"""
